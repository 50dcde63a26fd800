"""Checks of a result before it is written, as a definition's header lists them.

Nothing here needs Spark; `transformation.result_checks` evaluates them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ResultCheck:
    """One check.

    Attributes:
        text: for people, in one line, such as `not null carrier`; without `warn`.
        sql: what Spark evaluates, padded to its place in the file: a boolean expression over a
            row, which fails where it is false, as SQL's own CHECK; of `unique` the columns.
        is_unique: whether no two rows may have the same values of `sql`.
        is_blocking: whether a failure stops the projection.
        line: where it starts; like `column` from 1.
        column: where it starts.
    """

    text: str
    sql: str
    is_unique: bool
    is_blocking: bool
    line: int
    column: int
