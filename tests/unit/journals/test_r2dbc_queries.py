"""The queries of a journal in PostgreSQL together read each row of a time range once."""

from __future__ import annotations

import re
from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from tidemark.journals.r2dbc import queries
from tidemark.journals.r2dbc.series import table_of
from tidemark.journals.r2dbc.tables import JournalTable, journal_tables, snapshot_tables
from tidemark.partitioning import keys
from tidemark.partitioning.keys import NUMBER_OF_SLICES, SliceRange
from tidemark.settings import Settings
from tidemark.window import to_millis

SLICES = st.tuples(*[st.integers(0, NUMBER_OF_SLICES - 1)] * 2).map(sorted)
PARTITIONS = st.sampled_from([1, 2, 4, 16])
HOUR_MS = 3_600_000


def read(query: str) -> tuple[str, list[int], tuple[int, int]]:
    """Return the table, the slices and the time range of a query."""
    match = re.search(
        r' FROM "public"\."(\w+)" WHERE slice IN \(([\d, ]+)\) AND entity_type IN \(\'A\'\)'
        r" AND db_timestamp >= TIMESTAMPTZ '(\S+)' AND db_timestamp < TIMESTAMPTZ '(\S+)'"
        r" AND NOT deleted$",
        query,
    )
    assert match
    table, slices, first, end = match.groups()
    times = to_millis(datetime.fromisoformat(first)), to_millis(datetime.fromisoformat(end))
    return table, [int(text) for text in slices.split(",")], times


@given(PARTITIONS, SLICES, st.integers(-3, 5), st.integers(1, 30 * HOUR_MS), st.integers(1, 40))
def test_each_slice_at_each_time_is_read_once(
    partitions: int, slices: list[int], first_hour: int, length: int, parts: int
) -> None:
    tables = journal_tables(Settings(r2dbc_data_partitions=partitions))
    first_ms = first_hour * HOUR_MS
    asked, end_ms = SliceRange(*slices), first_ms + length
    selects = queries.between(
        tables, first_ms, end_ms, asked, ["A"], [], with_markers=False, parts=parts
    )
    times_of: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for table, found, times in map(read, selects):
        for nr in found:
            times_of.setdefault((table, nr), []).append(times)
    width = NUMBER_OF_SLICES // partitions
    names = [table.name.table for table in tables]
    wanted = {(names[nr // width], nr) for nr in range(asked.first, asked.last + 1)}
    assert times_of.keys() == wanted
    for ranges in times_of.values():
        ordered = sorted(ranges)
        assert (ordered[0][0], ordered[-1][1]) == (first_ms, end_ms)
        assert [end for _, end in ordered[:-1]] == [first for first, _ in ordered[1:]]


@given(PARTITIONS, st.text(max_size=9))
def test_the_tables_of_data_partitions_share_all_slices(partitions: int, pid: str) -> None:
    settings = Settings(r2dbc_data_partitions=partitions)
    for tables, name in (
        (journal_tables(settings), "event_journal"),
        (snapshot_tables(settings), "snapshot"),
    ):
        suffixes = [f"_{nr}" for nr in range(partitions)] if partitions > 1 else [""]
        assert [table.name.table for table in tables] == [name + suffix for suffix in suffixes]
        every = [nr for table in tables for nr in range(table.slices.first, table.slices.last + 1)]
        assert every == list(range(NUMBER_OF_SLICES))
        of_pid: JournalTable = table_of(tables, pid)
        assert of_pid.slices.first <= keys.slice_of(pid) <= of_pid.slices.last
