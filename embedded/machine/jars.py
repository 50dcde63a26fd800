"""Jars by coordinate, each checked against the sha256 in `jars.lock`.

`lock` resolves the roots with their transitive runtime dependencies; `fetch` only downloads what
the lock lists. The repository is the resolver library's default.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import pyspark
from jgo.maven import Dependency, MavenContext

from embedded.errors import EmbeddedError
from embedded.paths import JARS
from embedded.progress import ProgressLine

LOCK = Path(__file__).resolve().parent / "jars.lock"

ROOTS = {
    "cassandra": ("org.apache.cassandra:cassandra-all:5.0.9",),
    "spark": (
        "com.datastax.spark:spark-cassandra-connector_2.12:3.5.1",
        f"org.apache.spark:spark-avro_2.12:{pyspark.__version__}",
    ),
    "spark-kafka": (f"org.apache.spark:spark-sql-kafka-0-10_2.12:{pyspark.__version__}",),
    "kafka": (
        "org.apache.kafka:kafka_2.13:4.1.1",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    "interop": (
        "org.apache.pekko:pekko-persistence-cassandra_2.13:1.1.0",
        "org.scala-lang:scala-compiler:2.13.15",
        "org.slf4j:slf4j-simple:1.7.26",
    ),
    "projection": (
        "org.apache.pekko:pekko-persistence-cassandra_2.13:1.1.0",
        "org.apache.pekko:pekko-projection-cassandra_2.13:1.0.0",
        "org.apache.pekko:pekko-projection-eventsourced_2.13:1.0.0",
        # Pekko refuses modules of several versions beside each other.
        "org.apache.pekko:pekko-actor-typed_2.13:1.1.3",
        "org.apache.pekko:pekko-slf4j_2.13:1.1.3",
        "org.slf4j:slf4j-simple:1.7.26",
    ),
}
"""What each group is for; everything else in the lock follows from these.

`spark-kafka` is Spark's Kafka source, `kafka` the broker: groups of their own, so that the class
path of what does not read Kafka stays as it is. `interop` is fetched by the tests only: Pekko's
plugin, and the compiler for the client in tests/interop/client. `projection` is fetched by the
benchmarks only: Pekko's own projections.
"""

_DOWNLOADS = 8
_TIMEOUT_S = 60


@dataclass(frozen=True, order=True)
class LockedJar:
    """One line of the lock."""

    coordinate: str
    """`group:artifact:version[:classifier]`."""
    sha256: str

    @property
    def filename(self) -> str:
        """Artifact, version and classifier, as the repository names the file."""
        return "-".join(self.coordinate.split(":")[1:]) + ".jar"


def fetch(group: str, directory: Path | None = None, lock: Path = LOCK) -> list[Path]:
    """Return the jars of a group, downloading those that are missing.

    Args:
        group: A section of the lock, one of `ROOTS`.
        directory: Where the jars go, by default `JARS/<group>`. Jars of older locks are removed.
        lock: The lock file.

    Raises:
        EmbeddedError: The group is unknown, a download failed, or a checksum differs.
    """
    jars = _read_lock(lock).get(group)
    if not jars:
        raise EmbeddedError(f"no jars are locked for group {group!r}", str(lock), "choose another")
    directory = directory or JARS / group
    directory.mkdir(parents=True, exist_ok=True)
    missing = [jar for jar in jars if not _checked(directory / jar.filename, jar)]
    if missing:
        _download(group, missing, directory)
    paths = [directory / jar.filename for jar in jars]
    for stale in set(directory.glob("*.jar")) - set(paths):
        stale.unlink()
    return paths


def lock(lock_file: Path = LOCK) -> None:
    """Resolve every group from its roots and write the lock anew.

    A jar of a group of Spark's that pyspark ships itself, in whatever version, is left out: Spark
    loads its own first, and a second scala-library or scala-reflect breaks it.
    """
    sections = []
    with tempfile.TemporaryDirectory(prefix="tidemark-lock-") as cache:
        context = MavenContext(repo_cache=Path(cache), timeout=_TIMEOUT_S)
        for group, roots in ROOTS.items():
            progress = ProgressLine(f"jars/{group}")
            progress.update("resolving " + ", ".join(roots))
            jars = sorted(_resolve(context, roots, group))
            lines = [f"{jar.coordinate} {jar.sha256}" for jar in jars]
            sections.append("\n".join([f"[{group}]", *lines]) + "\n")
            progress.done(f"{len(jars)} jars locked")
    lock_file.write_text("\n".join(sections), encoding="utf-8")


def _resolve(context: MavenContext, roots: tuple[str, ...], group: str) -> Iterator[LockedJar]:
    inputs, transitive = context.resolver.resolve([context.create_dependency(r) for r in roots])
    # Native libraries have one artifact id under several classifiers: collect all of them.
    shipped = _shipped_by_spark() if group.startswith("spark") else frozenset()
    for dependency in (*inputs, *transitive):
        if dependency.artifactId not in shipped:
            coordinate = _coordinate(dependency)
            yield LockedJar(coordinate, _sha256(dependency.artifact.resolve()))


def _coordinate(dependency: Dependency) -> str:
    parts = [dependency.groupId, dependency.artifactId, dependency.version, dependency.classifier]
    return ":".join(part for part in parts if part)


def _shipped_by_spark() -> frozenset[str]:
    names = (path.stem for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    return frozenset(re.sub(r"-\d.*", "", name) for name in names)


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


def _checked(path: Path, jar: LockedJar) -> bool:
    if not path.exists():
        return False
    actual = _sha256(path)
    if actual != jar.sha256:
        raise EmbeddedError(
            f"checksum of {jar.coordinate} is {actual[:12]}..., the lock says {jar.sha256[:12]}...",
            str(path),
            "delete the file and run again",
        )
    return True


def _download(group: str, jars: list[LockedJar], directory: Path) -> None:
    progress = ProgressLine(f"jars/{group}")
    # A file enters the directory only when whole and checked: a killed download leaves nothing.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as cache:
        context = MavenContext(repo_cache=Path(cache), timeout=_TIMEOUT_S)
        with ThreadPoolExecutor(_DOWNLOADS) as pool:
            pending = [pool.submit(_fetch_one, context, jar, directory) for jar in jars]
            try:
                for done, future in enumerate(as_completed(pending), start=1):
                    progress.update(f"fetched {done} of {len(jars)}: {future.result()}")
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    progress.done(f"fetched {len(jars)} of {len(jars)}, checksums match")


def _fetch_one(context: MavenContext, jar: LockedJar, directory: Path) -> str:
    group, artifact, version, *classifier = jar.coordinate.split(":")
    component = context.project(group, artifact).at_version(version)
    try:
        path = component.artifact(classifier[0] if classifier else "").resolve()
    except (OSError, RuntimeError) as error:  # requests' errors are OSErrors
        cause = str(error).splitlines()[0][:200]
        raise EmbeddedError(
            f"cannot fetch {jar.coordinate}", cause, "check the network and run again"
        ) from error
    if (actual := _sha256(path)) != jar.sha256:
        raise EmbeddedError(
            f"checksum of {jar.coordinate} is {actual[:12]}..., the lock says {jar.sha256[:12]}...",
            "refused the download",
            "run again; if it stays, the repository served another file: do not use it",
        )
    os.replace(path, directory / jar.filename)
    return jar.filename


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
