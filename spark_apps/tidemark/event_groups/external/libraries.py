"""Python libraries that event groups load: fetched with pip, with all their dependencies.

A fetched library is identified by the SHA-256 of its wheels, and has its own directory, so that
each version of a library is separate.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.utils import canonicalize_name

from tidemark.event_groups.external.processes import CONFINED, Places, environment_for_others
from tidemark.event_groups.failure import EventFailed
from tidemark.setting_groups.event_groups import Allowed
from tidemark.settings import Settings
from tidemark.text import one_line

Hashes = Mapping[str, str]
"""SHA-256 of files by their names."""
_PATIENCE_S = 600
_PIP = (sys.executable, "-P", "-m", "pip", "--no-input", "--disable-pip-version-check", "--quiet")
_NEEDED = "it needs {}, which is not pinned with its hash in TIDEMARK_EVENT_GROUP_LIBRARIES"
_CAUSES = (
    (
        r"DO NOT MATCH THE HASHES[^\n]*\n\s+(\S+) from",
        "{} has another hash than in TIDEMARK_EVENT_GROUP_LIBRARIES",
    ),
    (r"pinned with ==\. These do not:\n\s+(\S+) from", _NEEDED),
    (r"Hashes are required[^\n]*\n\s+(\S+) --hash", _NEEDED),
)
"""Turns what pip reports about hashes in many lines into one line."""
_OF_PIP = ("PIP_", "XDG_CONFIG_HOME")
"""Variables that configure the package index of pip."""


@dataclass(frozen=True)
class LoadedLibrary:
    """A library at a version; `wheels` are its own and those of its dependencies."""

    name: str
    version: str
    wheels: Hashes

    @property
    def digest(self) -> str:
        """Return a text that differs for other libraries, versions and wheels."""
        text = json.dumps([self.name, self.version, sorted(self.wheels.items())])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Libraries:
    """Fetches allowed libraries into a cache."""

    def __init__(self, settings: Settings) -> None:
        self._allowed = settings.event_group_allowed_libraries
        self._wheels = settings.event_group_wheels_dir
        self._cache = settings.event_group_library_dir

    def fetch(self, name: str, version: str) -> LoadedLibrary:
        """Fetch a library and its dependencies, and keep them.

        Raises:
            EventFailed: it is not allowed, pip does not find it or a dependency, or a wheel has a
                wrong hash.
        """
        key = canonicalize_name(name)
        source = "" if self._wheels else "a package index"
        entry = allowed(self._allowed, f"the library {name}", key, version, source)
        self._cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self._cache) as folder:
            downloaded = Path(folder) / "wheels"
            requirements = Path(folder) / "requirements.txt"
            requirements.write_text("\n".join(entry.requirements or [f"{key}=={version}"]))
            options = ["--no-index", "--find-links", str(self._wheels)] if self._wheels else []
            options += ["--require-hashes"] if entry.hashes else []
            _pip(
                f"{name} {version}",
                *("download", "--only-binary", ":all:", "--dest", str(downloaded)),
                *(*options, "--requirement", str(requirements)),
            )
            files = sorted(downloaded.iterdir())
            wheels = {file.name: sha256(file) for file in files}
            library = LoadedLibrary(key, version, wheels)
            directory = self._directory(library)
            if not directory.exists():
                unpacked = Path(folder) / "unpacked"
                _pip(
                    f"{name} {version}",
                    *("install", "--no-deps", "--no-index", "--target", str(unpacked)),
                    *map(str, files),
                )
                _moved(unpacked, directory)
        return library

    def directory(self, library: LoadedLibrary) -> Path:
        """Return the directory of a library that was loaded before; fetch it if it is missing."""
        if not self._directory(library).exists():
            fetched = self.fetch(library.name, library.version)
            require_same(f"{library.name} {library.version}", library.wheels, fetched.wheels)
        return self._directory(library)

    def _directory(self, library: LoadedLibrary) -> Path:
        return self._cache / f"{library.name}-{library.version}-{library.digest}"


def allowed(entries: Iterable[Allowed], what: str, name: str, version: str, source: str) -> Allowed:
    """Return the entry of an allow-list by which a version may be loaded.

    Args:
        entries: of the list.
        what: describes in errors what is loaded.
        name: its name, as in entries.
        version: the version.
        source: named in errors; empty if only the operator can put files there.

    Raises:
        EventFailed: there is no entry, or it has no hash, and others can put files into the source.
    """
    candidates = [entry for entry in entries if entry.name == name]
    if not candidates:
        raise EventFailed(f"{what} is not allowed")
    for entry in sorted(candidates, key=lambda entry: entry.hashes == frozenset()):
        if entry.version in ("", version):
            if source and not entry.hashes:
                raise EventFailed(f"{name} is allowed without a hash, which {source} needs")
            return entry
    versions = ", ".join(entry.version for entry in candidates)
    raise EventFailed(f"{name} {version} is not allowed, only {versions}")


def places(settings: Settings, loaded: Iterable[object]) -> Places:
    """Return where functions are: in the users' own directory, and in the loaded libraries."""
    libraries = Libraries(settings)
    distributions = {settings.event_group_functions_dir: ""}
    for library in loaded:
        if isinstance(library, LoadedLibrary):
            distributions[libraries.directory(library)] = library.name
    return distributions


def _moved(unpacked: Path, directory: Path) -> None:
    try:
        unpacked.rename(directory)
    except OSError:
        # Another run has put the library there at the same time.
        if not directory.exists():
            raise
        shutil.rmtree(unpacked)


def _pip(what: str, *arguments: str) -> None:
    fetch_by(what, [*_PIP, *arguments], _cause, _OF_PIP)


def _cause(output: str) -> str:
    for pattern, message in _CAUSES:
        if match := re.search(pattern, output):
            return message.format(*match.groups())
    lines = [line for line in output.splitlines() if line.startswith("ERROR")]
    return (lines or [output])[-1].removeprefix("ERROR: ")


def fetch_by(
    what: str, command: Sequence[str], cause: Callable[[str], str], variables: Sequence[str]
) -> None:
    """Run a command that fetches something, without our settings and secrets.

    Args:
        what: describes in errors what is fetched.
        command: our own, with names that were checked.
        cause: extracts the cause of a failure from the output of the command.
        variables: prefixes of the command's own settings in the environment.

    Raises:
        EventFailed: the command fails, or takes too long.
    """
    try:
        subprocess.run(  # noqa: S603
            [*CONFINED, *command],
            env=environment_for_others(*variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
            timeout=_PATIENCE_S,
        )
    except subprocess.CalledProcessError as error:
        raise EventFailed(f"{what} cannot be loaded: {one_line(cause(error.stdout))}") from None
    except subprocess.TimeoutExpired:
        raise EventFailed(f"{what} was not loaded within {_PATIENCE_S} s") from None


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def require_same(what: str, before: Hashes, now: Hashes) -> None:
    """Raise EventFailed with the names of the files that have changed, if any has."""
    if changed := sorted(dict(before.items() ^ now.items())):
        raise EventFailed(f"{what} is not what was loaded before: {', '.join(changed)}")
