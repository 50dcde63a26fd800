"""Offsets shown, set, skipped and cleared by hand while nothing runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.project.projections import Event, Projections, counts, event, totals
from tests.integration.support import Journal
from tests.integration.tag_write.tags_and_messages import (
    BOTH,
    both,
    both_sources,
    pieces,
    reached,
    red,
    results,
)
from tidemark.journals.pekko.series import Series
from tidemark.ledger.locks import Locks
from tidemark.project.definition import catalog
from tidemark.project.offset_store.offset_places import Offset
from tidemark.project.offset_store.offsets import OffsetStore

ID = ("--persistence-id", "p|1")
SERIES = {"every": ID, "totals": (*ID, "--tag", "red")}


@pytest.fixture
def projections(make_journal: Callable[..., Journal], tmp_path: Path) -> Projections:
    """Return projections with the same result from both sources: every event has a tag."""
    return both_sources(make_journal, tmp_path)


def six_events() -> list[Event]:
    """Return the events e1 to e6, two in each of three hours."""
    return [red("p|1", number, (number - 1) // 2 + 0.1 * number) for number in range(1, 7)]


def apply_to_both(projections: Projections, command: str, *options: str) -> list[str]:
    """Apply a command to both projections; return the lines that say what was done."""
    lines = []
    for name in BOTH:
        series = () if command == "clear" else SERIES[name]
        result = projections.manage(command, name, *series, *options, "--apply")
        assert result.status == 0, result.stderr
        assert "starting Spark" not in result.stderr
        lines += [line.strip() for line in result.stdout.splitlines()[1:-1]]
    return lines


def audited(projections: Projections) -> list[tuple[str, str, str]]:
    """Return (operation, subject without its keyspace, plan) of the audit rows, in order."""
    rows = sorted(projections.journal.own_rows("audit"), key=lambda row: row["at"].time)
    return [(row["operation"], row["subject"].partition("/")[2], row["plan"]) for row in rows]


@pytest.mark.long
def test_management_clear_gives_e1_to_e6_twice_and_update_offset_gives_e4_to_e6_again(
    projections: Projections,
) -> None:
    """R2dbcTimestampOffsetProjectionSpec, management; R2dbcOffsetStoreSpec: set, clear."""
    events = six_events()
    projections.insert(*events)
    projections.list_persistence_ids()
    projections.validated(0, 1, 2)
    assert projections.run(0, 3).report["counts"]["accepted"] == 12
    stored = projections.offsets()

    dry = projections.manage("clear", "every")
    assert dry.report["state"] == "planned"
    assert "forgets the offsets of 1 series and processes 3 time buckets anew" in dry.stdout
    assert projections.offsets() == stored
    [planned_only] = projections.journal.own_rows("audit")
    assert (planned_only["operation"], planned_only["dry_run"]) == ("clear", True)
    assert "dry run: nothing was changed; --apply does it" in dry.stdout
    apply_to_both(projections, "clear")
    assert projections.offsets() == {}
    assert projections.journal.own_rows("projection_cursor") == []
    assert results(projections) == both(events)
    again = projections.run(2, 3)
    assert again.report["counts"] == counts(events_read=12, rows_written=6, accepted=12)
    assert projections.offsets() == stored
    assert projections.manage("get-offset", "every").report["counts"] == {"series": 1}

    lines = apply_to_both(projections, "set-offset", "--to", "3")
    assert "p|1 red: from 6 back to 3: 3 events in 2 time buckets that are done" in " ".join(lines)
    assert set(reached(projections).values()) == {3}
    shown = projections.manage("get-offset", "totals", *SERIES["totals"])
    [row] = shown.report["details"]["offsets"]
    assert (row["number"], row["sequence_nr"], row["slice"]) == (
        3,
        3,
        stored["totals", "p|1", "red"][0],
    )
    assert row["timestamp"] == str(events[2].timestamp)
    planned = projections.manage(
        "plan", "--window-start", "2024-03-01T02:00Z", "--window-end", "2024-03-01T03:00Z"
    )
    assert "every: 2 restated; ? rows, by the ledger" in planned.stdout
    assert "every  2024-03-01 01:00  restated, ? rows" in planned.stdout
    again = projections.run(2, 3)
    assert again.report["counts"] == counts(events_read=8, rows_written=4, accepted=6, duplicate=2)
    assert pieces(projections)["every", 0] == ("done", "restated", 2)
    assert pieces(projections)["every", 1] == ("done", "restated", 3)
    assert projections.offsets() == stored
    assert results(projections) == both(events)

    # Without its pieces, the run itself finds the events that are new again in done buckets.
    settings, subject = projections.journal.settings(), f"{projections.journal.keyspace}/totals"
    [totals] = catalog.select(projections.directory, ["totals"]).definitions
    OffsetStore(projections.journal.control, settings, totals).set_offset(
        Offset(Series("p|1", "red"), 3, 3)
    )
    # As after set-offset, the events of the results may be new again.
    projections.journal.control.execute(
        f"DELETE FROM {settings.keyspace}.projection_bucket"
        " WHERE projection = ? AND bucket_size = 'Hour'",
        (subject,),
    )
    projections.insert(more := red("p|1", 7, 3.1))
    projections.validated(3)
    late = projections.run(3, 4)
    assert late.report["counts"]["accepted"] == 4 + 1
    assert pieces(projections)["totals", 1] == ("done", "late", 4)
    assert pieces(projections)["totals", 2] == ("done", "late", 4)
    assert results(projections) == both([*events, more])
    assert [operation for operation, *_ in audited(projections)] == [
        "clear",
        *("clear started", "clear") * 2,
        *("set-offset started", "set-offset") * 2,
    ]


def test_recorded_gaps_are_skipped_together_and_what_has_come_since_is_not(
    projections: Projections,
) -> None:
    missing, later = red("b|1", 1, 0.2), red("e|1", 1, 2.1)
    held = [red("a|1", 3, 0.1), red("b|1", 2, 1.1), red("c|1", 2, 1.2), red("c|1", 4, 1.3)]
    young, other = red("d|1", 3, 2.2), red("f|1", 1, 0.3)
    projections.history.update({red(pid, 1, 0.0) for pid in ("a|1", "c|1", "d|1")})
    projections.history.update({red("a|1", 2, 0.0), red("c|1", 3, 0.0), red("d|1", 2, 0.0)})
    projections.history.add(missing)
    projections.insert(*held, young, other)
    projections.validated(0, 1, 2)
    assert projections.run(0, 3).report["pieces"]["held"] == 6
    projections.insert(missing, later)

    for name, series in (("every", ""), ("totals", " red")):
        command = ("skip", name, "--gaps", "--before", "2024-03-01T02:00Z")
        dry = projections.manage(*command)
        assert dry.status == 0, dry.stderr
        assert "starting Spark" not in dry.stderr
        lines = [line.strip() for line in dry.stdout.splitlines()]
        said = "3 missing numbers of 2 series count as consumed, and will be in no result"
        assert f"{name}: {said}" in lines
        assert {f"a|1{series} 1..2", f"c|1{series} 1"} <= set(lines)
        assert not [line for line in lines if line.startswith("d|1")]
        assert [line for line in lines if line.startswith("1 gap left: the numbers are there")]
        applied = projections.manage(*command, "--apply")
        assert applied.report["counts"] == {"series_skipped": 2, "numbers_missing": 3}
    assert [
        (row["persistence_id"], row["first_number"], row["last_number"])
        for row in sorted(
            projections.journal.own_rows("projection_skipped"),
            key=lambda row: (row["tag"], row["persistence_id"]),
        )
    ] == [("a|1", 1, 2), ("c|1", 1, 1)] * 2
    assert audited(projections)[-1][0] == "skip-gaps"

    healed = projections.run(0, 3, "--projection", "every")
    assert healed.status == 0, healed.stderr
    done = [held[0], missing, held[1], held[2], later, other]
    assert projections.journal.rows("every") == totals(done)
    rest = projections.manage("skip", "every", "--gaps", "--apply")
    assert rest.report["counts"] == {"series_skipped": 2, "numbers_missing": 3}
    assert projections.run(0, 3, "--projection", "every").report["pieces"]["held"] == 0
    assert projections.journal.rows("every") == totals([*done, held[3], young])
    nothing = projections.manage("skip", "every", "--gaps")
    assert "every: no gap to skip is recorded" in nothing.stdout
    for wrong in (
        (),
        (*ID, "--gaps"),
        (*ID, "--before", "2024-03-01"),
        ("--gaps", "--tag", "red"),
    ):
        refused = projections.manage("skip", "every", *wrong)
        assert refused.status == 2
        assert "one series, or all recorded gaps" in refused.error_lines[0]
    refused = projections.manage("skip", "every", "--gaps", "--before", "then")
    assert (refused.status, "not an ISO 8601 time" in refused.error_lines[0]) == (2, True)


@pytest.mark.long
def test_skip_heals_a_gap_and_keeps_a_poison_event_out_of_every_result(
    projections: Projections,
) -> None:
    first, missing = red("p|1", 1, 0.1), red("p|1", 2, 0.4)
    poison, behind, other = red("p|1", 3, 1.1), red("p|1", 4, 2.1), red("q|1", 1, 1.2)
    projections.history.add(missing)
    projections.insert(first, poison, behind, other)
    projections.validated(0, 1, 2)
    assert projections.run(0, 3).report["pieces"]["held"] == 4
    status = projections.manage("status", "every")
    assert "oldest gap 2024-03-01 01:00, age 2:00:00: gap: p|1 2 missing" in status.stdout
    [said] = status.report["details"]["projections"]
    assert (said["gap"], said["gap_age_seconds"]) == ("gap: p|1 2 missing", 7200)

    dry = projections.manage("skip", "every", *ID)
    assert "p|1: skips 2, which is missing" in dry.stdout
    assert reached(projections)["every", "p|1"] == 1
    assert "p|1: skips 2, which is missing" in apply_to_both(projections, "skip")
    lines = apply_to_both(projections, "skip")
    assert "p|1 red: skips 3, the event with sequence nr 3 of 2024-03-01 01:00" in lines
    dead = projections.journal.own_rows("quarantine")
    assert {(row["application"], row["persistence_id"], row["sequence_nr"]) for row in dead} == {
        (f"project/{name}", "p|1", 3) for name in BOTH
    }
    assert all(row["event"] == poison.payload for row in dead)
    assert all(row["cause"].startswith("skipped by hand: ") for row in dead)
    healed = projections.run(2, 3)
    assert healed.report["pieces"] == {"planned": 4, "done": 4, "held": 0, "failed": 0}
    assert results(projections) == both([first, behind, other])
    assert reached(projections)["totals", "p|1"] == 4

    # A skipped event stays out, also when the missing event appears.
    projections.insert(missing)
    assert projections.run(0, 3, "--force").report["pieces"]["done"] == 6
    assert results(projections) == both([first, behind, other])

    # With the offset back before the event, the event is new again.
    apply_to_both(projections, "set-offset", "--to", "1")
    assert projections.journal.own_rows("projection_skipped") == []
    assert projections.run(0, 3).report["pieces"]["done"] == 6
    assert results(projections) == both([first, missing, poison, behind, other])


def test_forward_skips_and_what_cannot_be_is_refused_in_one_line(projections: Projections) -> None:
    events = six_events()
    projections.insert(*events)
    projections.insert_progress(events[-1])
    projections.list_persistence_ids()
    projections.validated(0)
    assert projections.run(0, 1).status == 0
    stored = projections.offsets()

    def refusal(status: int, *arguments: str) -> str:
        result = projections.manage(*arguments, "--apply")
        assert result.status == status, result.stdout
        [line] = result.error_lines
        return line

    every, by_tag = ("set-offset", "every", *ID), ("set-offset", "totals", *ID)
    for line in (
        refusal(2, *every, "--to", "7"),
        refusal(2, *by_tag, "--tag", "red", "--to", "7"),
    ):
        assert "7 lies in the future of p|1" in line
        assert "its highest number is 6" in line
    unknown = ("set-offset", "every", "--persistence-id", "x|1", "--to", "1")
    assert "the journal has no event of x|1" in refusal(2, *unknown)
    assert "the journal has no event of p|1 blue" in refusal(
        2, *by_tag, "--tag", "blue", "--to", "1"
    )
    assert "totals does not read the tag green" in refusal(
        2, *by_tag, "--tag", "green", "--to", "1"
    )
    assert "choose one of red, blue" in refusal(2, *by_tag, "--to", "1")
    assert "its series have no tag" in refusal(2, *every, "--tag", "red", "--to", "1")
    assert "no projection is named none" in refusal(2, "clear", "none")
    assert "the offset of p|1 is 2, not 5" in refusal(1, *every, "--to", "3", "--expected", "5")
    control, keyspace = projections.journal.control, projections.journal.keyspace
    subject = f"project/{keyspace}/every"
    own = projections.journal.own_keyspace
    with Locks(control, own, [subject], owner="ops-1:7:r1", run_id="r1", ttl=60):
        for command in (("clear", "every"), ("skip", "every", *ID), (*every, "--to", "3")):
            assert f"{subject} is held by ops-1:7:r1 since " in refusal(1, *command)
    assert projections.offsets() == stored
    assert audited(projections) == []
    assert "p|1: is at 2 already" in projections.manage(*every, "--to", "2", "--apply").stdout

    # Of two commands that have read the same offset, the second loses.
    assert projections.manage(*every, "--to", "4", "--expected", "2", "--apply").status == 0
    assert "is 4, not 2" in refusal(1, *every, "--to", "5", "--expected", "2")
    [started, done] = audited(projections)
    assert done == (
        "set-offset",
        "every",
        "p|1: from 2 forward to 4: 2 events and 0 missing numbers count as consumed, and will be"
        " in no result",
    )
    assert started[0] == "set-offset started"
    projections.validated(1, 2)
    ran = projections.run(0, 3, "--projection", "every")
    assert ran.report["pieces"]["done"] == 2
    assert projections.journal.rows("every") == totals([*events[:2], *events[4:]])
    projections.journal.insert("metadata", [{"persistence_id": "p|1", "deleted_to": 3}])
    line = refusal(3, *every, "--to", "1")
    assert "p|1 2..3 would be new again, but were deleted" in line
    assert "go back to 3 at most" in line
    assert "7 lies in the future of p|1" in refusal(2, "skip", "every", *ID)


def test_offsets_of_many_series_are_counted_and_paged(projections: Projections) -> None:
    many = [
        event(f"m|{number}", 1, 0.001 * number, "red", kind="in", amount=1) for number in range(40)
    ]
    projections.insert(*many)
    projections.validated(0)
    assert projections.run(0, 1, "--projection", "every").status == 0
    summary = projections.manage("get-offset", "every")
    assert summary.report["counts"] == {"series": 40}
    assert "newest cursor 2024-03-01 00:02:20" in summary.stdout
    assert "oldest cursor 2024-03-01 00:00:00" in summary.stdout
    slices = summary.report["details"]["slices"]
    assert sum(one_slice["series"] for one_slice in slices) == 40
    every = projections.manage("get-offset", "every", "--all")
    assert {f"m|{number}" for number in range(40)} == {
        line.partition(":")[0] for line in every.stdout.splitlines() if line.startswith("m|")
    }
    number = slices[0]["slice"]
    one_slice = projections.manage("get-offset", "every", "--slice", str(number), "--all")
    assert one_slice.report["counts"]["series"] == slices[0]["series"]
    assert all(
        f"(slice {number})" in line for line in one_slice.stdout.splitlines() if "m|" in line
    )
    nothing = projections.manage("get-offset", "every", "--persistence-id", "x|1")
    assert "x|1: nothing is consumed" in nothing.stdout
