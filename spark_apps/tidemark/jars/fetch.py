"""Downloads the jars in `jars.lock`, from the default repository of the resolver library."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from jgo.maven import MavenContext

from tidemark.errors import TidemarkError

LOCK = Path(__file__).resolve().parent / "jars.lock"
OF_SPARK = ("spark", "spark-kafka", "spark-postgres", "spark-iceberg")
"""The groups that the applications need; other groups are for the embedded servers and tests."""
TIMEOUT_S = 60
_DOWNLOADS = 8
Say = Callable[[str], None]


@dataclass(frozen=True, order=True)
class LockedJar:
    """A line of the lock."""

    coordinate: str
    """`group:artifact:version[:classifier]`."""
    sha256: str

    @property
    def filename(self) -> str:
        """Artifact, version and classifier, as the repository names the file."""
        return "-".join(self.coordinate.split(":")[1:]) + ".jar"


def fetch(group: str, directory: Path, say: Say, lock: Path = LOCK) -> list[Path]:
    """Return the jars of a group, downloading those that are missing.

    Args:
        group: A section of the lock.
        directory: Where the jars are stored; other jars in it are deleted.
        say: Called with the progress after each download.
        lock: The lock file.

    Raises:
        TidemarkError: The group is unknown, a download failed, or a checksum differs.
    """
    jars = _read_lock(lock).get(group)
    if not jars:
        raise TidemarkError(
            f"no jars are locked for group {group!r}", where=str(lock), do="choose another"
        )
    directory.mkdir(parents=True, exist_ok=True)
    missing = [jar for jar in jars if not _is_present(directory / jar.filename, jar)]
    if missing:
        _download(missing, directory, say)
    paths = [directory / jar.filename for jar in jars]
    for stale in set(directory.glob("*.jar")) - set(paths):
        stale.unlink()
    return paths


def _read_lock(lock_file: Path) -> dict[str, list[LockedJar]]:
    groups: dict[str, list[LockedJar]] = {}
    current: list[LockedJar] = []
    for line in lock_file.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            current = groups.setdefault(line.strip("[]"), [])
        elif line:
            coordinate, sha256 = line.split()
            current.append(LockedJar(coordinate, sha256))
    return groups


def _is_present(path: Path, jar: LockedJar) -> bool:
    if not path.exists():
        return False
    actual = sha256_of(path)
    if actual != jar.sha256:
        raise TidemarkError(
            f"checksum of {jar.coordinate} is {actual[:12]}..., the lock says {jar.sha256[:12]}...",
            where=str(path),
            do="delete the file and run again",
        )
    return True


def _download(jars: list[LockedJar], directory: Path, say: Say) -> None:
    # Only complete and checked files enter the directory: a killed download leaves nothing.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as cache:
        context = MavenContext(repo_cache=Path(cache), timeout=TIMEOUT_S)
        with ThreadPoolExecutor(_DOWNLOADS) as pool:
            pending = [pool.submit(_fetch_jar, context, jar, directory) for jar in jars]
            try:
                for done, future in enumerate(as_completed(pending), start=1):
                    say(f"fetched {done} of {len(jars)}: {future.result()}")
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _fetch_jar(context: MavenContext, jar: LockedJar, directory: Path) -> str:
    group, artifact, version, *classifier = jar.coordinate.split(":")
    component = context.project(group, artifact).at_version(version)
    try:
        path = component.artifact(classifier[0] if classifier else "").resolve()
    except (OSError, RuntimeError) as error:  # requests' errors are OSErrors
        cause = str(error).splitlines()[0][:200]
        raise TidemarkError(
            f"cannot fetch {jar.coordinate}",
            where=cause,
            do="check the network and run again",
        ) from error
    if (actual := sha256_of(path)) != jar.sha256:
        raise TidemarkError(
            f"checksum of {jar.coordinate} is {actual[:12]}..., the lock says {jar.sha256[:12]}...",
            where="refused the download",
            do="run again; if it stays, the repository served another file: do not use it",
        )
    os.replace(path, directory / jar.filename)
    return jar.filename


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
