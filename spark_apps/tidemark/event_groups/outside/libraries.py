"""Libraries of Python that event groups load: fetched with pip, with all that they need.

What was fetched is known by the SHA-256 of its wheels, and lies in a directory of its own, so that
each version of a library is one for itself.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tidemark.event_group_settings import canonical
from tidemark.event_groups.execution.failure import EventFailed
from tidemark.event_groups.outside.processes import environment_for_others
from tidemark.settings import Settings
from tidemark.text import one_line

Hashes = Mapping[str, str]
"""SHA-256 of files by their names."""
_PATIENCE_S = 600
_PIP = (sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "--quiet")


@dataclass(frozen=True)
class Library:
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
        self._allowed = settings.event_group_library_names
        self._wheels = settings.event_group_wheels_dir
        self._cache = settings.event_group_library_dir

    def refusal(self, name: str) -> str:
        """Return why a library may not be loaded; empty if it may."""
        return "" if canonical(name) in self._allowed else f"the library {name} is not allowed"

    def fetch(self, name: str, version: str) -> Library:
        """Fetch a library and all that it needs, and keep it.

        Raises:
            EventFailed: it is not allowed, or pip does not find it, or something that it needs.
        """
        if why := self.refusal(name):
            raise EventFailed(why)
        self._cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self._cache) as folder:
            downloaded = Path(folder) / "wheels"
            source = ["--no-index", "--find-links", str(self._wheels)] if self._wheels else []
            _pip(
                f"{name} {version}",
                *("download", "--only-binary", ":all:", "--dest", str(downloaded)),
                *(*source, f"{name}=={version}"),
            )
            files = sorted(downloaded.iterdir())
            wheels = {file.name: sha256(file) for file in files}
            library = Library(canonical(name), version, wheels)
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

    def directory(self, library: Library) -> Path:
        """Return where a library is that was loaded before; it is fetched if it is not here.

        Raises:
            EventFailed: it cannot be fetched, or has other wheels than it had.
        """
        if not self._place(library).exists():
            found = self.fetch(library.name, library.version)
            require_same(f"{library.name} {library.version}", library.wheels, found.wheels)
        return self._place(library)

    def _place(self, library: Library) -> Path:
        return self._cache / f"{library.name}-{library.version}-{library.digest}"


def _moved(unpacked: Path, place: Path) -> None:
    try:
        unpacked.rename(place)
    except OSError:
        # Another run has put it there at the same time.
        if not place.exists():
            raise
        shutil.rmtree(unpacked)


def _pip(what: str, *arguments: str) -> None:
    fetch_by(what, [*_PIP, *arguments], _cause)


def _cause(said: str) -> str:
    lines = [line for line in said.splitlines() if line.startswith("ERROR")]
    return (lines or [said])[-1].removeprefix("ERROR: ")


def fetch_by(what: str, command: Sequence[str], cause: Callable[[str], str]) -> None:
    """Run a command that fetches something, without our settings and secrets.

    Args:
        what: is fetched, for errors.
        command: our own, with names that were checked.
        cause: finds in what the command has said why it failed.

    Raises:
        EventFailed: the command fails, or takes too long.
    """
    try:
        subprocess.run(  # noqa: S603
            command,
            env=environment_for_others(),
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
