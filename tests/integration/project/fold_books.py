"""A projection of mode fold whose state lists every folded sequence nr, in folding order."""

from __future__ import annotations

from tests.integration.project.projections import Projections

TABLE = """\
CREATE TABLE {keyspace}.books (persistence_id text PRIMARY KEY, sequence_nr bigint,
    balance bigint, folded list<bigint>, note text)"""
POISON_AT = "ValueError: this is poison (books.py:18)"
_ANEW = """\
        if event.is_snapshot:
            book = {"balance": 0, "folded": [-1]}
"""


def fold(
    *,
    source: str | dict[str, list[str]] = "messages",
    start: str = "first-event",
    factor: int = 1,
    version: int = 1,
) -> str:
    """Return the definition. An event of kind poison raises; a snapshot counts as number -1."""
    anew = _ANEW if start == "snapshot" else ""
    return f'''\
from tidemark.projection import projection


@projection(
    name="books",
    version={version},
    source={source!r},
    mode="fold",
    start="{start}",
    target="KEYSPACE.books",
    event="kind STRING, amount INT",
    state="balance BIGINT, folded ARRAY<BIGINT>",
)
def fold(state, events):
    book = dict(state or {{"balance": 0, "folded": []}})
    for event in events.itertuples():
        if event.kind == "poison":
            raise ValueError("this is poison")
{anew}\
        book["balance"] += int(event.amount) * {factor}
        book["folded"].append(event.sequence_nr)
    return book
'''


FOLD = fold()


def define(projections: Projections, text: str = FOLD, table: str | None = None) -> None:
    keyspace = projections.journal.keyspace
    (projections.directory / "books.py").write_text(text.replace("KEYSPACE", keyspace))
    if table is not None:
        projections.journal.control.execute_ddl(table.format(keyspace=keyspace))


def books(projections: Projections) -> dict[str, tuple[int, int, list[int]]]:
    """Return (sequence nr, balance, folded sequence nrs) by persistence id."""
    return {
        row["persistence_id"]: (row["sequence_nr"], row["balance"], row["folded"])
        for row in projections.journal.rows("books")
    }
