"""The columns of frames with many rows."""

from __future__ import annotations

KEPT = {"id": "string", "row_text": "string"}
"""Stored rows: the JSON of the key and of the other columns."""
HAS_NULLS = "tidemark_nulls"
"""Of a row to write: whether one of its parameters is null."""
SOURCE = "tidemark_row"
"""Of a row that an expression reads: all its columns, as texts by name."""
TEXTS = "map<string,string>"
CELL = "struct<value:string,written:bigint,expires:bigint>"
IMAGE = f"struct<existed:boolean,nulls:boolean,cells:map<string,{CELL}>>"
"""A before-image; cells by column, written in microseconds, expires in milliseconds."""
IMAGE_COLUMN = "tidemark_image"


def fate(column: str, word: str) -> str:
    """Return the name of a decision about a column, such as `puts`."""
    return f"tidemark_fate_{word}_{column}"
