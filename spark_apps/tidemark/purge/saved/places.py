"""The directories in which copies may be: those of TIDEMARK_SAVE_DIRS, and below."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import PurePosixPath
from typing import NamedTuple

from tidemark.errors import InvalidInput
from tidemark.settings import Settings

_SETTING = "TIDEMARK_SAVE_DIRS"
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", re.DOTALL)
"""Scheme, authority and path, as Hadoop parses a text (`org.apache.hadoop.fs.Path`)."""
_UNUSABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff*?{}\[\]\\%]")
"""Hadoop reads paths as patterns, in which a backslash hides `..`; a server may decode `%2e`."""


class _Place(NamedTuple):
    scheme: str
    authority: str
    path: PurePosixPath

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"

    def is_below(self, other: _Place) -> bool:
        return self[:2] == other[:2] and self.path.is_relative_to(other.path)


def directory_of(text: str, settings: Settings, option: str) -> str:
    """Return a directory of copies as a URI without `..` and without symbolic links.

    `text` is a name, an absolute path of this machine, or a URI. A relative directory is below the
    first of TIDEMARK_SAVE_DIRS. The error names `option`.

    Raises:
        InvalidInput: it is below none of these directories, or cannot be used.
    """
    allowed = [_place(directory, _SETTING) for directory in settings.save_directories]
    if not allowed:
        raise InvalidInput(
            "there is no directory for copies", where=_SETTING, do="set it; see docs/cleanup.md"
        )
    is_relative = text.strip() and not text.startswith("/") and not _URI.match(text)
    place = _place(f"{allowed[0]}/{text}" if is_relative else text, option)
    if not any(place.is_below(directory) for directory in allowed):
        raise InvalidInput(
            f"{place} is not in a directory for copies",
            where=option,
            do=f"name a directory below {' or '.join(map(str, allowed))}, or set {_SETTING}",
        )
    return str(place)


def is_plain(name: str | None) -> bool:
    """Return whether a directory name read from a copy is a single path component."""
    return bool(name and name not in (".", "..") and "/" not in name and not _UNUSABLE.search(name))


def _place(text: str, where: str) -> _Place:
    if not text.strip():
        raise InvalidInput("the directory is empty", where=where, do="name one")
    if _UNUSABLE.search(text):
        raise InvalidInput(
            f"the directory {text} has a character that cannot be used",
            where=where,
            do=r"name one without control characters and without any of * ? { } [ ] \ %",
        )
    uri = _URI.fullmatch(text)
    scheme, authority, path = uri.groups("") if uri else ("file", "", text)
    scheme = scheme.lower()
    if uri and not path.startswith("/"):
        raise InvalidInput(
            f"the URI {text} has no absolute path",
            where=where,
            do="write it as scheme://host/directory",
        )
    if scheme != "file":
        normal = posixpath.normpath(path)
        return _Place(scheme, authority, PurePosixPath("/", normal.lstrip("/")))
    if authority:
        raise InvalidInput(
            f"the URI {text} names a host, and files are of this machine",
            where=where,
            do="write file:///directory",
        )
    path = os.path.realpath(path)
    # The path after a link that leads to itself is not resolved.
    if os.path.realpath(path) != path:
        raise InvalidInput(
            f"symbolic links of {text} lead in a circle", where=where, do="name another directory"
        )
    return _Place(scheme, "", PurePosixPath(path))
