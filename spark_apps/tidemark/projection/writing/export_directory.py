"""Where the files of mode `export` go."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from tidemark.errors import InvalidInput
from tidemark.projection.definition.model import Definition
from tidemark.settings import Settings

LOCAL = "file"
SCHEMES = (LOCAL, "hdfs", "viewfs")
"""The file systems that replace a file by another in one step."""


def resolve(definition: Definition, settings: Settings) -> str:
    """Return the target's directory as a URI; a relative one lies in `settings.export_dir`.

    Raises:
        InvalidInput: its file system does not replace a file in one step.
    """
    text = definition.path
    if not _scheme(text) and not text.startswith("/"):
        text = f"{str(settings.export_dir).rstrip('/')}/{text}"
    if not _scheme(text):
        # Hadoop takes it as it is: what `as_uri` escapes would be the file's name.
        return f"{LOCAL}://{Path(text).absolute()}"
    if _scheme(text) not in SCHEMES:
        raise InvalidInput(
            f"mode export does not write to {_scheme(text)}: it cannot replace a file in one step",
            where=f"{definition.file}:{definition.header_lines['target']}",
            do=f"use one of {', '.join(SCHEMES)} in the target or in TIDEMARK_EXPORT_DIR,"
            " and copy the files from there",
        )
    return text.rstrip("/")


def _scheme(text: str) -> str:
    return urlsplit(text).scheme if "://" in text or text.startswith("file:/") else ""
