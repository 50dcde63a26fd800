"""Libraries of Python that event groups load: fetched with pip, with all that they need.

What was fetched is known by the SHA-256 of its wheels, and lies in a directory of its own, so that
each version of a library is one for itself.
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

from tidemark.event_group_settings import Allowed
from tidemark.event_groups.external.processes import CONFINED, Places, environment_for_others
from tidemark.event_groups.failure import EventFailed
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
"""What pip says of hashes in many lines, in one."""
_OF_PIP = ("PIP_", "XDG_CONFIG_HOME")
"""Variables that say which package index pip is set up for."""


@dataclass(frozen=True)
class LoadedLibrary:
    """A library at a version; `wheels` are its own and those of what it needs."""

    name: str
    version: str
    wheels: Hashes

    @property
    def digest(self) -> str:
        """Return what tells it from another library, or the same one with other wheels."""
        text = json.dumps([self.name, self.version, sorted(self.wheels.items())])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Libraries:
    """The libraries that may be loaded."""

    def __init__(self, settings: Settings) -> None:
        """Bind; nothing is fetched yet."""
        self._allowed = settings.event_group_allowed_libraries
        self._wheels = settings.event_group_wheels_dir
        self._cache = settings.event_group_library_dir

    def fetch(self, name: str, version: str) -> LoadedLibrary:
        """Fetch a library and all that it needs, and keep it.

        Raises:
            EventFailed: it is not allowed, or pip does not find it, or something that it needs, or
                a wheel has another hash than it must have.
        """
        own = canonicalize_name(name)
        source = "" if self._wheels else "a package index"
        entry = allowed(self._allowed, f"the library {name}", own, version, source)
        self._cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self._cache) as folder:
            downloaded = Path(folder) / "wheels"
            wanted = Path(folder) / "requirements.txt"
            wanted.write_text("\n".join(entry.requirements or [f"{own}=={version}"]))
            options = ["--no-index", "--find-links", str(self._wheels)] if self._wheels else []
            options += ["--require-hashes"] if entry.hashes else []
            _pip(
                f"{name} {version}",
                *("download", "--only-binary", ":all:", "--dest", str(downloaded)),
                *(*options, "--requirement", str(wanted)),
            )
            files = sorted(downloaded.iterdir())
            wheels = {file.name: sha256(file) for file in files}
            library = LoadedLibrary(own, version, wheels)
            place = self._place(library)
            if not place.exists():
                unpacked = Path(folder) / "unpacked"
                _pip(
                    f"{name} {version}",
                    *("install", "--no-deps", "--no-index", "--target", str(unpacked)),
                    *map(str, files),
                )
                _moved(unpacked, place)
        return library

    def directory(self, library: LoadedLibrary) -> Path:
        """Return where a library is that was loaded before; it is fetched if it is not here.

        Raises:
            EventFailed: it cannot be fetched, or has other wheels than it had.
        """
        if not self._place(library).exists():
            found = self.fetch(library.name, library.version)
            require_same(f"{library.name} {library.version}", library.wheels, found.wheels)
        return self._place(library)

    def _place(self, library: LoadedLibrary) -> Path:
        return self._cache / f"{library.name}-{library.version}-{library.digest}"


def allowed(entries: Iterable[Allowed], what: str, name: str, version: str, source: str) -> Allowed:
    """Return the entry of an allow-list by which a version may be loaded.

    Args:
        entries: those of the list.
        what: is loaded, for errors.
        name: its name, as entries have it.
        version: the version.
        source: others than the operator may put files there, and it is named in errors; empty:
            nobody else.

    Raises:
        EventFailed: there is none, or it has no hash, and the source is open to others.
    """
    named = [entry for entry in entries if entry.name == name]
    if not named:
        raise EventFailed(f"{what} is not allowed")
    for entry in sorted(named, key=lambda one: one.hashes == frozenset()):
        if entry.version in ("", version):
            if source and not entry.hashes:
                raise EventFailed(f"{name} is allowed without a hash, which {source} needs")
            return entry
    versions = ", ".join(entry.version for entry in named)
    raise EventFailed(f"{name} {version} is not allowed, only {versions}")


def places(settings: Settings, loaded: Iterable[object]) -> Places:
    """Return where functions are: in the users' own directory, and in libraries.

    Args:
        settings: say where the directories are.
        loaded: what was loaded; all but Python libraries is left out.

    Raises:
        EventFailed: a library that was loaded before cannot be fetched any more.
    """
    libraries = Libraries(settings)
    found = {settings.event_group_functions_dir: ""}
    for library in loaded:
        if isinstance(library, LoadedLibrary):
            found[libraries.directory(library)] = library.name
    return found


def _moved(unpacked: Path, place: Path) -> None:
    try:
        unpacked.rename(place)
    except OSError:
        # Another run has put it there at the same time.
        if not place.exists():
            raise
        shutil.rmtree(unpacked)


def _pip(what: str, *arguments: str) -> None:
    fetch_by(what, [*_PIP, *arguments], _cause, _OF_PIP)


def _cause(said: str) -> str:
    for pattern, says in _CAUSES:
        if found := re.search(pattern, said):
            return says.format(*found.groups())
    lines = [line for line in said.splitlines() if line.startswith("ERROR")]
    return (lines or [said])[-1].removeprefix("ERROR: ")


def fetch_by(
    what: str, command: Sequence[str], cause: Callable[[str], str], variables: Sequence[str]
) -> None:
    """Run a command that fetches something, without our settings and secrets.

    Args:
        what: is fetched, for errors.
        command: our own, with names that were checked.
        cause: finds in what the command has said why it failed.
        variables: the beginnings of the names of the command's own settings in the environment.

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
    """Raise if files are not those that they were.

    Raises:
        EventFailed: some differ; it names them.
    """
    if changed := sorted(dict(before.items() ^ now.items())):
        raise EventFailed(f"{what} is not what was loaded before: {', '.join(changed)}")
