"""The command `diff`: compares the tables of two versions of a blue/green projection."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.cassandra import connector
from tidemark.context import Outcome, RunContext, RunState
from tidemark.errors import InvalidInput, SchemaMismatch
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.management.selection import select_one
from tidemark.project.planning import live_release
from tidemark.project.versions.comparison import ReleaseComparison, compare
from tidemark.text import counted
from tidemark.window import Window, from_millis, iso, to_millis

_VERSION_OF = re.compile(r"([A-Za-z][A-Za-z0-9_]*)@([1-9][0-9]{0,2})")


@dataclass(frozen=True)
class VersionTable:
    """The table of a version.

    Attributes:
        key: columns of the primary key with their CQL types, in order; the partition key first.
        others: all other columns with their CQL types.
    """

    version: int
    keyspace: str
    table: str
    key: Mapping[str, str]
    others: Mapping[str, str]

    def __str__(self) -> str:
        return f"version {self.version} in {self.keyspace}.{self.table}"


@dataclass(frozen=True)
class Columns:
    """The columns of two tables that are no key columns.

    Attributes:
        shared: names of columns that both tables have with the same type.
        lines: columns that are not compared, with the reason, for reports.
    """

    shared: Sequence[str]
    lines: Sequence[str]

    @classmethod
    def of(cls, first: VersionTable, second: VersionTable) -> Columns:
        """Compare the columns of two tables by name and type."""
        common_names = sorted(first.others.keys() & second.others.keys())
        shared = [name for name in common_names if first.others[name] == second.others[name]]
        lines = [
            f"only version {table.version} has the column {name}"
            for table, other in ((first, second), (second, first))
            for name in sorted(table.others.keys() - other.others.keys())
        ]
        lines += [
            f"the column {name} is not compared: {first.others[name]} in version {first.version},"
            f" {second.others[name]} in version {second.version}"
            for name in common_names
            if name not in shared
        ]
        return cls(shared, lines)


def run_diff(
    run: RunContext, versions: Sequence[str], window: Window | None, *, limit: int
) -> Outcome:
    """Report the differences between the tables of two versions, such as `totals@1`.

    Only mode bucket can have a `window` of time buckets. `limit` is the number of differing rows,
    and of time buckets, that are shown.

    Raises:
        InvalidInput: these are not two versions of a blue/green projection that have a table, or
            the window does not fit.
        SchemaMismatch: the tables have different primary keys.
    """
    name, numbers = _parsed(versions)
    definition = select_one(run, name)
    _require_window(run, definition, window)
    first, second = (_table_of(run, definition, number) for number in numbers)
    _require_same_key(first, second)
    columns = Columns.of(first, second)
    comparison = compare(
        _rows(run, first, columns, window),
        _rows(run, second, columns, window),
        [*first.key],
        limit,
        is_by_bucket=definition.mode is Mode.BUCKET,
    )
    return Outcome(
        RunState.DONE,
        counts={
            "rows_equal": comparison.total.equal,
            "rows_differing": comparison.total.differing,
            "rows_only_in_first": comparison.total.only_first,
            "rows_only_in_second": comparison.total.only_second,
        },
        lines=_lines(definition.name, first, second, columns, comparison),
        details={
            "tables": [f"{table.keyspace}.{table.table}" for table in (first, second)],
            "rows": [row.asDict(recursive=True) for row in comparison.sample],
        },
    )


def _parsed(versions: Sequence[str]) -> tuple[str, tuple[int, int]]:
    matches = [match for text in versions if (match := _VERSION_OF.fullmatch(text))]
    names = {match[1] for match in matches}
    numbers = [int(match[2]) for match in matches]
    if len(versions) != 2 or len(names) != 1 or len({*numbers}) != 2:
        raise InvalidInput(
            f"not two versions of one projection: {' '.join(versions)}",
            where="PROJECTION@N",
            do="write them as `totals@1 totals@2`",
        )
    return names.pop(), (numbers[0], numbers[1])


def _require_window(run: RunContext, definition: Definition, window: Window | None) -> None:
    if window is None:
        return
    if definition.mode is not Mode.BUCKET:
        raise InvalidInput(
            f"in mode {definition.mode} a row does not belong to one time bucket",
            where="--window-start, --window-end",
            do=f"leave them out to compare all rows of {definition.name}",
        )
    window.require_whole_buckets(run.settings.bucket_size, clock.now())


def _table_of(run: RunContext, definition: Definition, version: int) -> VersionTable:
    """Return the table of a version: its own, or the template if it was processed in place."""
    if not definition.is_blue_green:
        raise InvalidInput(
            f"the versions of {definition.name} have one table: it is not released blue/green",
            where=str(definition.file),
            do="write `release: blue-green` before the version is raised",
        )
    in_place = live_release.in_place_version(run.control, run.settings, definition)
    with_table = live_release.versions_with_table(run.control, definition)
    if version in with_table:
        table = live_release.at_version(definition, version).table
    elif version == in_place:
        table = definition.template
    else:
        versions = sorted({*with_table, in_place} - {0})
        raise InvalidInput(
            f"version {version} of {definition.name} has no table",
            where=f"{definition.template_target}_v{version}",
            do=f"name two of: {', '.join(map(str, versions)) or 'none yet'}; look at"
            f" `project.py releases {definition.name}`",
        )
    types = run.control.table_columns(definition.keyspace, table)
    if types is None:
        raise SchemaMismatch(
            f"the table {definition.keyspace}.{table} does not exist",
            do=f"look at `project.py releases {definition.name}`",
        )
    partition_key, clustering = run.control.primary_key(definition.keyspace, table)
    key = {name: types.pop(name) for name in (*partition_key, *clustering)}
    return VersionTable(version, definition.keyspace, table, key, types)


def _require_same_key(first: VersionTable, second: VersionTable) -> None:
    if [*first.key.items()] != [*second.key.items()]:
        keys = [
            f"{table} has ({', '.join(f'{name} {kind}' for name, kind in table.key.items())})"
            for table in (first, second)
        ]
        raise SchemaMismatch(
            f"the primary keys differ: {', '.join(keys)}",
            do="compare versions of one key, or compare these two with a query of your own",
        )


def _rows(
    run: RunContext, table: VersionTable, columns: Columns, window: Window | None
) -> DataFrame:
    """Read key and shared columns of a table: all rows, or those of a window by partition key."""
    keys = None
    if window is not None:
        step = run.settings.bucket_size.milliseconds
        time_buckets = run.spark.range(to_millis(window.start), to_millis(window.end), step)
        keys = time_buckets.select(F.col("id").alias("time_bucket"))
    names = [*table.key, *columns.shared]
    return connector.read(run.spark, table.keyspace, table.table, *names, keys=keys)


def _lines(
    name: str,
    first: VersionTable,
    second: VersionTable,
    columns: Columns,
    result: ReleaseComparison,
) -> list[str]:
    first_version, second_version = first.version, second.version
    lines = [
        f"{name}: {first}, {second}",
        f"  {result.total.line(first_version, second_version)}, {result.total.equal:,} equal",
        *(f"  {line}" for line in columns.lines),
    ]
    for time_bucket, numbers in result.by_bucket.items():
        lines.append(
            f"  {iso(from_millis(time_bucket))}: {numbers.line(first_version, second_version)}"
        )
    if (older := result.buckets - len(result.by_bucket)) > 0:
        lines.append(f"  and {counted(older, 'older time bucket')} with differences")
    only = {
        "first": f"only in version {first_version}",
        "second": f"only in version {second_version}",
    }
    for row in result.sample:
        changes = [
            f"{change['column']} {_shown(change['first'])} in version {first_version},"
            f" {_shown(change['second'])} in version {second_version}"
            for change in row["changes"]
        ]
        lines.append(f"  {row['key']}: {only.get(row['side']) or '; '.join(changes)}")
    return lines


def _shown(text: str | None) -> str:
    return "null" if text is None else text
