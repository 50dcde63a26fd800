"""What is known of rows that `copy` has sent to a staging table."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.postgres.identifiers import TableName

ATTEMPT = "tidemark_attempt"
"""The column of a staging table with the task that has sent the row."""


@dataclass(frozen=True)
class Staged:
    """Rows in a staging table.

    Attributes:
        table: the staging table.
        attempts: the tasks whose rows count; the table may also have rows of tasks that failed
            after their COPY, and were tried again.
        rows: number of rows that count.
        columns: the columns of the rows.
    """

    table: TableName
    attempts: list[int]
    rows: int
    columns: tuple[str, ...]
