"""Checks of a result, and batches of a backlog, in a real Cassandra."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.project.projections import (
    LATEST,
    LATEST_TABLE,
    SOME_EVENTS,
    TOTALS,
    TOTALS_TABLE,
    Event,
    Projections,
    event,
    totals,
)
from tests.integration.support import Journal
from tests.integration.tag_write.tags_and_messages import both_sources

CHECKED = TOTALS.replace(
    "event:",
    "checks: [{warn: n > 1}, total < 1000, {unique: [time_bucket, kind]}]\nevent:",
)


def test_a_failing_check_writes_nothing_and_a_warning_is_counted(projections: Projections) -> None:
    projections.define(CHECKED, TOTALS_TABLE)
    projections.insert(*SOME_EVENTS)
    projections.validated(0, 1)
    shown = projections.run(0, 2, "--dry-run", "--show")
    assert shown.status == 0, shown.stderr
    bucket = SOME_EVENTS[0].time_bucket
    sample = f"such as time_bucket={bucket}, kind=in, n="
    assert "check fails" not in shown.stdout
    assert sample not in shown.stdout

    assert projections.run(0, 1).report["counts"]["check_warnings"] == 0
    before = (projections.journal.rows("totals"), projections.offsets())
    assert before[0] == totals(SOME_EVENTS[:3])
    failed = projections.run(1, 2)
    assert failed.status == 3
    later = SOME_EVENTS[3].time_bucket
    assert failed.error_lines == [
        "project: error: projection totals failed: the result fails 1 check: total < 1000:"
        f" 2 of 2 rows, such as time_bucket={later}, kind=in, total=10000"
        f" ({projections.directory / 'one.sql'}:7:25);"
        " nothing of it was written; correct the SELECT or the events, or write `warn:` before the"
        " check"
    ]
    assert (projections.journal.rows("totals"), projections.offsets()) == before
    assert [state for _, _, state, _ in projections.states()] == ["done", "failed"]
    assert (
        "check fails: total < 1000: 2 of 2 rows"
        in projections.run(1, 2, "--dry-run", "--show").stdout
    )

    projections.define(CHECKED.replace("total < 1000", "{warn: total < 5000}"))
    again = projections.run(0, 2)
    assert again.status == 0, again.stderr
    assert again.report["pieces"] == {"planned": 1, "done": 1, "held": 0, "failed": 0}
    assert again.report["counts"]["check_warnings"] == 3
    assert f"totals: warning: total < 5000: 1 of 2 rows, such as time_bucket={later}, kind=in" in (
        again.stdout
    )
    assert projections.journal.rows("totals") == totals(SOME_EVENTS)


def skewed() -> list[Event]:
    """Return two series in order, a series with a jumping clock, and one with a gap from 2 on."""

    def red(pid: str, number: int, hours: float) -> Event:
        return event(pid, number, hours, "red", kind="in", amount=10**number)

    return [
        *(red("a|1", number, number - 0.5) for number in range(1, 6)),
        *(red("a|2", 1 + number, 0.1 + number / 2) for number in range(9)),
        red("b|1", 1, 3.2),
        red("b|1", 2, 0.2),
        red("b|1", 3, 4.2),
        red("b|1", 4, 1.2),
        red("c|1", 1, 0.3),
        red("c|1", 3, 1.3),
        red("c|1", 4, 4.3),
    ]


@pytest.mark.long
@pytest.mark.parametrize("progress", [False, True])
def test_batches_of_a_bucket_make_what_one_batch_makes(
    make_journal: Callable[..., Journal], tmp_path: Path, progress: bool
) -> None:
    """Only events behind the gap are rejected, wherever batches begin and end."""
    missing = event("c|1", 2, 0.4, "red", kind="in", amount=100)
    ends = []
    for rows in ("1", "1000000"):
        directory = tmp_path / rows
        directory.mkdir()
        projections = both_sources(make_journal, directory, PROJECT_MAX_ROWS=rows)
        journal = projections.journal
        projections.history.add(missing)
        projections.insert(*skewed())
        if progress:
            projections.list_persistence_ids()
            projections.insert_progress(*(e for e in skewed() if e.hours > 4))
        projections.validated(*range(5))
        result = projections.run(0, 5)
        assert result.status == 0, result.stderr
        said = re.findall(r"totals: batch (\d), 1 bucket .* (\d) buckets? left", result.stderr)
        assert said == ([(str(n), str(5 - n)) for n in range(1, 6)] if rows == "1" else [])
        assert result.report["pieces"] == {"planned": 10, "done": 6, "held": 4, "failed": 0}
        counts = result.report["counts"]
        assert counts["accepted"] == 2 * (len(skewed()) - 2)
        assert counts["rejected_seq_nr"] + counts["rejected_backtracking_seq_nr"] == 4
        accepted = [e for e in skewed() if (e.persistence_id, e.sequence_nr) not in
                 {("c|1", 3), ("c|1", 4)}]  # fmt: skip
        assert journal.rows("totals") == journal.rows("every") == totals(accepted)
        held = end_of(projections)
        projections.insert(missing)
        healed = projections.run(0, 5)
        assert healed.status == 0, healed.stderr
        assert healed.report["counts"]["rejected_seq_nr"] == 0
        assert journal.rows("totals") == journal.rows("every") == totals([*skewed(), missing])
        ends.append((held, end_of(projections)))
    assert ends[0] == ends[1]


def end_of(projections: Projections) -> tuple[object, ...]:
    tables = [projections.journal.rows(name) for name in ("totals", "every")]
    return tables, projections.offsets(), projections.states()


@pytest.mark.long
def test_a_failed_batch_leaves_those_before_it_done(projections: Projections) -> None:
    projections.define(CHECKED, TOTALS_TABLE)
    projections.insert(*SOME_EVENTS)
    projections.validated(0, 1)
    bounded = {**projections.journal.environment, "TIDEMARK_PROJECT_MAX_BYTES": "1"}
    projections.journal.environment = bounded
    failed = projections.run(0, 2)
    assert failed.status == 3
    assert failed.report["pieces"] == {"planned": 2, "done": 1, "held": 0, "failed": 1}
    assert failed.report["counts"]["events_read"] == 2
    assert projections.journal.rows("totals") == totals(SOME_EVENTS[:3])
    assert [state for _, _, state, _ in projections.states()] == ["done", "failed"]


RAISES = TOTALS.replace("count(*)", "count(CASE WHEN amount < 0 THEN raise_error('boom') END)")
POISON = event("q|1", 1, 2.5, "red", kind="in", amount=-1, odd="x")
GOOD = event("q|1", 1, 2.5, "red", kind="in", amount=1)


@pytest.mark.long
def test_of_six_buckets_only_the_one_at_fault_fails_and_what_follows_it_waits(
    projections: Projections,
) -> None:
    """Two projections fail: one by tags whose SELECT raises, one by messages with on-error fail."""
    others = [event(f"p|{hour}", 1, hour + 0.1, "red", kind="in", amount=1) for hour in range(6)]
    behind = event("q|1", 2, 4.5, "red", kind="in", amount=5)
    projections.define(RAISES, TOTALS_TABLE)
    stops = LATEST.replace("event:", "on-error: fail\nevent:").replace(" INT", " INT, odd INT")
    projections.define(stops, LATEST_TABLE, file="two.sql")
    projections.insert(*others, POISON, behind)
    projections.validated(*range(6))
    strict = projections.run(0, 6, "--strict", "--projection", "latest")
    assert strict.report["pieces"] == {"planned": 6, "done": 0, "held": 0, "failed": 6}
    assert projections.offsets() == {}

    failed = projections.run(0, 6)
    assert failed.status == 1
    assert failed.report["pieces"] == {"planned": 12, "done": 8, "held": 2, "failed": 2}
    [line] = failed.error_lines
    assert "projection totals failed: 1 of 6 buckets, 2024-03-01 02:00: " in line
    poison = "on-error is fail, and the event q|1 1 cannot be processed"
    again = "1 of 6 buckets (6 taken up from earlier runs)"
    assert f"projection latest failed: {again}, 2024-03-01 02:00: {poison}" in line
    assert "boom" in line
    states = {(name, hour): (state, error) for name, hour, state, error in projections.states()}
    for name, held in (("totals", "gap: q|1 red 1 held"), ("latest", "gap: q|1 1 held")):
        assert [states[name, hour][0] for hour in range(6)] == [
            *("done", "done", "failed", "done", "held", "done")
        ]
        assert states[name, 4][1] == held
        assert f"{name}: 2024-03-01 04:00 held: {held}" in failed.stdout
    assert "boom" in (states["totals", 2][1] or "")
    assert len(projections.offsets()) == 10
    done = [e for e in others if int(e.hours) != 2]
    assert projections.journal.rows("totals") == without_n(done)
    assert {row["persistence_id"] for row in projections.journal.rows("latest")} == {
        e.persistence_id for e in done
    }

    # After the correction, the next run does these two pieces and no others.
    assert GOOD.timestamp == POISON.timestamp
    projections.insert(GOOD)
    healed = projections.run(0, 6)
    assert healed.status == 0, healed.stderr
    assert healed.report["pieces"] == {"planned": 4, "done": 4, "held": 0, "failed": 0}
    assert projections.journal.rows("totals") == without_n([*others, GOOD, behind])
    newest = {
        row["persistence_id"]: row["sequence_nr"] for row in projections.journal.rows("latest")
    }
    assert newest == {e.persistence_id: 1 for e in others} | {"q|1": 2}


def without_n(events: list[Event]) -> list[dict[str, object]]:
    """Return the rows that RAISES makes of the events, without the count."""
    rows = [row | {"n": 0} for row in totals(events)]
    return sorted(rows, key=lambda row: str(sorted(row.items())))
