"""Blue/green releases: a new version beside the live one, the swap, the drop of old versions."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from unittest.mock import patch

import pytest
from cassandra.timestamps import MonotonicTimestampGenerator

from tests.faults.killing import start_until
from tests.faults.seams import Seam
from tests.integration.project.projections import (
    SOME_EVENTS,
    START,
    START_MS,
    TOTALS,
    TOTALS_TABLE,
    Projections,
    event,
    totals,
)
from tests.integration.support import Journal, Result
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import create_table_like
from tidemark.context import RunContext
from tidemark.errors import TidemarkError
from tidemark.ledger.piece import Piece, Reason
from tidemark.ledger.pieces import Pieces
from tidemark.partitioning.keys import BucketSize
from tidemark.project.definition import catalog
from tidemark.project.planning import live_release
from tidemark.project.running import releases

TABLE = TOTALS_TABLE.replace(
    "PRIMARY KEY ((time_bucket), kind))",
    "note text static, PRIMARY KEY ((time_bucket), kind))"
    " WITH CLUSTERING ORDER BY (kind DESC) AND default_time_to_live = 86400000"
    " AND comment = 'it''s'",
)
TEMPLATE = """CREATE TABLE {}."Template" (
    "Time" timestamp, kind text, note text static, sizes frozen<map<text, int>>,
    PRIMARY KEY (("Time", kind), sizes)
) WITH CLUSTERING ORDER BY (sizes DESC) AND comment = 'it''s (a) template'
AND speculative_retry = '42p' AND default_time_to_live = 86400000 AND gc_grace_seconds = 77
AND crc_check_chance = 0.5 AND min_index_interval = 256 AND read_repair = 'NONE'
AND compression = {{'enabled': false}} AND caching = {{'keys': 'NONE', 'rows_per_partition': '3'}}
AND compaction = {{'class': 'TimeWindowCompactionStrategy', 'compaction_window_size': '3'}}"""
BLUE_GREEN = "release: blue-green\nkey: [time_bucket, kind]\nevent:"
SECOND = TOTALS.replace("version: 1", "version: 2").replace("event:", BLUE_GREEN)
SECOND = SECOND.replace("sum(amount)", "-sum(amount)")
THIRD = SECOND.replace("version: 2", "version: 3").replace("AS n,", "AS n, max(amount) AS most,")
LATER = (event("b|1", 1, 2.5, "red", kind="in", amount=7),)


def manage(projections: Projections, *arguments: str) -> Result:
    directory = str(projections.directory)
    return projections.journal.run("project", *arguments, PROJECTIONS_DIR=directory)


def released(projections: Projections) -> list[tuple[str, int, str]]:
    return [
        (row["projection"].partition("/")[2], row["live_version"], row["live_table"])
        for row in projections.journal.own_rows("projection_release")
    ]


def expected(rows: list[Row], sign: int = 1) -> list[Row]:
    return [{**row, "total": sign * row["total"], "note": None} for row in rows]


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["time_bucket"], row["kind"]))


def tables(projections: Projections) -> set[str]:
    rows = projections.journal.control.execute(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?",
        (projections.journal.keyspace,),
    )
    return {row["table_name"] for row in rows if row["table_name"].startswith("totals")}


def start_and_die(projections: Projections, start: str, end: str) -> subprocess.Popen[str]:
    """Start a run that is killed when its pieces are done."""
    return start_until(
        projections.journal,
        Seam.PIECES_FINISHED,
        "project",
        *("--window-start", start, "--window-end", end),
        PROJECTIONS_DIR=str(projections.directory),
    )


def test_a_version_is_built_beside_the_live_one_and_swapped_when_it_has_caught_up(
    projections: Projections,
) -> None:
    journal, keyspace = projections.journal, projections.journal.keyspace
    projections.define(TOTALS, TABLE)
    projections.insert(*SOME_EVENTS, *LATER)
    projections.validated(0, 1)
    assert projections.run(0, 2).status == 0
    live = in_order(journal.rows("totals"))
    assert live == in_order(expected(totals(SOME_EVENTS)))

    projections.define(SECOND)
    assert projections.run(0, 1, "--dry-run").status == 0
    assert tables(projections) == {"totals"}
    first = projections.run(0, 1)
    assert first.status == 0, first.stderr
    building = f"version 2 is built in {keyspace}.totals_v2, 1 bucket done, 1 to do"
    in_place = f"version 1 is live in {keyspace}.totals"
    assert f"totals: {building}; {in_place}" in first.stdout
    assert released(projections) == []
    said = manage(projections, "releases").stdout
    assert f"totals: {in_place}" in said
    assert building in said

    # The run is killed between the last piece and the swap.
    projections.validated(2)
    bounds = [START.replace(hour=hour).isoformat() for hour in (2, 3)]
    killed = start_and_die(projections, *bounds)
    _, stderr = killed.communicate()
    assert killed.returncode == -signal.SIGKILL, stderr
    assert released(projections) == []
    assert in_order(journal.rows("totals")) == live
    again = projections.run(2, 3)
    assert again.status == 0, again.stderr
    assert again.report["state"] == "done"
    assert "starting Spark" not in again.stderr
    assert "totals: version 2 is live now" in again.stdout
    assert released(projections) == [("totals", 2, f"{keyspace}.totals_v2")]
    all_rows = in_order(expected(totals([*SOME_EVENTS, *LATER]), -1))
    assert in_order(journal.rows("totals_v2")) == all_rows
    assert in_order(journal.rows("totals")) == live
    assert {row["operation"] for row in journal.own_rows("audit")} == {"release"}
    assert projections.run(2, 3).report["state"] == "nothing-to-do"


@pytest.mark.long
def test_a_version_that_is_promoted_by_hand_waits_for_the_command(
    projections: Projections,
) -> None:
    keyspace = projections.journal.keyspace
    projections.define(TOTALS, TABLE)
    projections.insert(*SOME_EVENTS)
    projections.validated(0, 1)
    assert projections.run(0, 2).status == 0
    projections.define(SECOND.replace("event:", "promote: manual\nevent:"))
    early = manage(projections, "promote", "totals", "--apply")
    assert early.status == 3
    counts = f"in {keyspace}.totals_v2 0 buckets done, 2 to do"
    assert f"version 2 of totals has not caught up: {counts}" in early.error_lines[0]

    ready = f"version 2 is ready in {keyspace}.totals_v2; `project.py promote totals --apply`"
    assert f"totals: {ready}" in projections.run(0, 2).stdout
    assert released(projections) == []
    for command in ("releases", "status"):
        assert f"  {ready}" in manage(projections, command).stdout
    compared = manage(projections, "diff", "totals@1", "totals@2")
    assert f"totals: version 1 in {keyspace}.totals, version 2 in" in compared.stdout
    assert ", 0 only in version 1, 0 only in version 2, 0 equal" in compared.stdout
    plan = manage(projections, "promote", "totals")
    swap = f"version 1 is live in {keyspace}.totals; now version 2 in {keyspace}.totals_v2"
    assert f"totals: {swap}" in plan.stdout
    assert released(projections) == []
    assert manage(projections, "promote", "totals", "--version", "2", "--apply").status == 0
    assert released(projections) == [("totals", 2, f"{keyspace}.totals_v2")]
    audited = [(row["operation"], row["dry_run"]) for row in projections.journal.own_rows("audit")]
    assert sorted(audited) == [("promote", False), ("promote", True), ("promote started", False)]

    again = manage(projections, "promote", "totals", "--apply")
    assert again.report["state"] == "nothing-to-do"
    assert f"totals: version 2 is live in {keyspace}.totals_v2 since" in again.stdout
    assert "is ready" not in manage(projections, "status").stdout
    other = manage(projections, "promote", "totals", "--version", "1", "--apply")
    assert other.status == 2
    assert "totals has no version 1 of its own" in other.error_lines[0]


@pytest.mark.long
def test_tables_of_two_versions_are_compared(projections: Projections) -> None:
    keyspace, control = projections.journal.keyspace, projections.journal.control
    projections.define(SECOND, TABLE)
    hours = [START_MS + hour * 3_600_000 for hour in range(3)]
    for version, rows in (
        (1, [(0, "in", 7), (1, "in", 1), (1, "out", 2), (2, "gone", 3)]),
        (2, [(0, "in", -7), (1, "in", 1), (1, "out", 2), (2, "new", 3)]),
    ):
        create_table_like(control, keyspace, "totals", f"totals_v{version}")
        control.execute_many(
            f"INSERT INTO {keyspace}.totals_v{version} (time_bucket, kind, total) VALUES (?, ?, ?)",
            [(hours[hour], kind, total) for hour, kind, total in rows],
        )
    control.execute_ddl(f"ALTER TABLE {keyspace}.totals_v2 ADD most int")

    both = ("totals@1", "totals@2")
    whole = manage(projections, "diff", *both)
    assert whole.status == 0, whole.stderr
    for line in (
        f"totals: version 1 in {keyspace}.totals_v1, version 2 in {keyspace}.totals_v2",
        "1 different row, 1 only in version 1, 1 only in version 2, 2 equal",
        "only version 2 has the column most",
        "2024-03-01T02:00:00Z: 0 different rows, 1 only in version 1, 1 only in version 2",
        f'{{"time_bucket":{hours[0]},"kind":"in"}}: total 7 in version 1, -7 in version 2',
        f'{{"time_bucket":{hours[2]},"kind":"gone"}}: only in version 1',
    ):
        assert line in whole.stdout
    window = ("--window-start", "2024-03-01T01:00Z", "--window-end", "2024-03-01T03:00Z")
    some = manage(projections, "diff", *both, *window, "--limit", "1")
    assert some.status == 0, some.stderr
    assert some.report["counts"] == {
        "rows_equal": 2,
        "rows_differing": 0,
        "rows_only_in_first": 1,
        "rows_only_in_second": 1,
    }
    assert len(some.report["details"]["rows"]) == 1

    unknown = manage(projections, "diff", "totals@1", "totals@3")
    assert unknown.status == 2
    assert (
        f"version 3 of totals has no table ({keyspace}.totals_v3); name two of: 1, 2"
        in (unknown.error_lines[0])
    )
    assert "starting Spark" not in unknown.stderr


@pytest.mark.long
def test_a_version_that_is_over_can_be_dropped_and_the_live_one_cannot(
    projections: Projections,
) -> None:
    journal, keyspace = projections.journal, projections.journal.keyspace
    projections.define(SECOND, TABLE)
    projections.insert(*SOME_EVENTS)
    projections.validated(0, 1)
    assert "totals: version 2 is live now" in projections.run(0, 2).stdout
    rows = in_order(expected(totals(SOME_EVENTS), -1))
    assert in_order(journal.rows("totals_v2")) == rows
    assert journal.rows("totals") == []
    refused = manage(projections, "drop-release", "totals", "--version", "2", "--apply")
    assert refused.status == 2
    assert f"of totals version 2 is live in {keyspace}.totals_v2 since" in refused.error_lines[0]

    journal.control.execute_ddl(f"ALTER TABLE {keyspace}.totals ADD most int")
    projections.define(THIRD)
    third = projections.run(1, 2)
    assert third.status == 0, third.stderr
    assert third.report["pieces"]["done"] == 2
    assert "totals: version 3 is live now" in third.stdout
    third_rows = in_order(journal.rows("totals_v3"))
    assert {row.pop("most") is not None for row in third_rows} == {True}
    assert third_rows == rows
    assert released(projections) == [("totals", 3, f"{keyspace}.totals_v3")]

    over = f"version 2 is over, {keyspace}.totals_v2"
    assert over in manage(projections, "releases", "totals").stdout
    to_second = ("promote", "totals", "--version", "2")
    undone = manage(projections, *to_second, "--apply")
    assert undone.status == 2
    assert "the next run would make version 3 of totals the live one again" in undone.error_lines[0]
    projections.define(THIRD.replace("event:", "promote: manual\nevent:"))
    assert f"; now version 2 in {keyspace}.totals_v2" in manage(projections, *to_second).stdout
    plan = manage(projections, "drop-release", "totals", "--version", "2")
    assert f"drop {keyspace}.totals_v2, and version 2's 2 pieces" in plan.stdout
    assert "dry run: nothing was changed; --apply does it" in plan.stdout
    audited = projections.journal.own_rows("audit")
    assert [row["dry_run"] for row in audited if row["operation"] == "drop-release"] == [True]
    assert tables(projections) == {"totals", "totals_v2", "totals_v3"}
    assert manage(projections, "drop-release", "totals", "--version", "2", "--apply").status == 0
    assert tables(projections) == {"totals", "totals_v3"}
    assert {name for name, *_ in projections.states()} == {"totals@v3"}
    assert {key[0] for key in projections.offsets()} == {"totals@v3"}
    gone = manage(projections, "drop-release", "totals", "--version", "2", "--apply")
    assert "totals has no version 2 of its own" in gone.error_lines[0]

    projections.define(TOTALS.replace("version: 1", "version: 4"))
    back = projections.run(2, 3)
    assert back.status == 2
    assert "totals was released blue/green, version 3 is live" in back.error_lines[0]


def test_of_two_swaps_upon_the_same_release_one_is_refused(
    projections: Projections, control: Control
) -> None:
    projections.define(SECOND, TABLE)
    projections.insert(*SOME_EVENTS)
    projections.validated(0, 1)
    settings = projections.journal.settings()
    run = RunContext("project", settings, control, "other")
    (definition,) = catalog.load(Path(projections.directory))
    assert "totals: version 2 is live now" in projections.run(0, 2).stdout
    before = released(projections)
    passed = {START_MS, START_MS + 3_600_000}
    for stale in (None, live_release.Live(1, "elsewhere.totals_v1", is_stored=True)):
        with pytest.raises(TidemarkError, match="of projection totals was changed meanwhile"):
            releases._swap(run, definition, stale, passed)
    assert released(projections) == before


def test_a_table_made_like_another_has_its_columns_key_and_every_option(
    projections: Projections, control: Control
) -> None:
    keyspace = projections.journal.keyspace
    control.execute_ddl(TEMPLATE.format(keyspace))
    control.execute_ddl(f'CREATE INDEX ON {keyspace}."Template" (note)')
    for _ in range(2):
        create_table_like(control, keyspace, "Template", "copy")
    of_template, of_copy = (described(control, keyspace, name) for name in ("Template", "copy"))
    assert of_copy == of_template
    # These options differ from Cassandra's defaults.
    options = of_copy[1]
    assert options["comment"] == "it's (a) template"
    assert options["speculative_retry"] == "42p"
    assert options["gc_grace_seconds"] == 77
    assert options["default_time_to_live"] == 86_400_000
    with pytest.raises(TidemarkError, match=rf"the table {keyspace}.nothing does not exist"):
        create_table_like(control, keyspace, "nothing", "other")


def described(control: Control, keyspace: str, name: str) -> tuple[list[Row], Row]:
    """Return columns and options of a table as Cassandra has them, without its name and id."""
    where, values = " WHERE keyspace_name = ? AND table_name = ?", (keyspace, name)
    columns = control.execute(f"SELECT * FROM system_schema.columns{where}", values)
    [options] = control.execute(f"SELECT * FROM system_schema.tables{where}", values)
    for row in (*columns, options):
        del row["table_name"]
    del options["id"]
    return columns, options


def test_a_ledger_that_was_forgotten_begins_anew_whatever_our_clock_says(journal: Journal) -> None:
    """Lightweight transactions write the ledger: a plain delete by a fast clock would hide them."""
    pieces = Pieces(
        journal.control, journal.own_keyspace, "project", "dropped", BucketSize.HOUR, "v1"
    )
    hours = [Piece(hour * 3_600_000, Reason.NEW) for hour in range(120)]
    pieces.note(hours)
    ahead = MonotonicTimestampGenerator()
    cluster = journal.control._cluster
    with patch.object(cluster, "timestamp_generator", lambda: ahead() + 3_600_000_000):
        pieces.forget()
    assert pieces.entries() == []
    pieces.note(hours[:2])
    assert [entry.time_bucket for entry in pieces.entries()] == [0, 3_600_000]
