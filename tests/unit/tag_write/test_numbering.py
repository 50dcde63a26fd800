"""What tag-write numbers, beside what check expects, on random and damaged journals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.unit.conftest import Examples
from tests.unit.project.stored_history_frames import Finding, findings_of, keys_of
from tests.unit.project.stored_history_model import History, Journal, Progress, Row, as_repaired
from tests.unit.reconcile.repair_in_memory import repaired
from tidemark.journals.pekko import message_rows
from tidemark.journals.pekko.shapes import WHOLE_MESSAGES
from tidemark.journals.pekko.tables import PAYLOAD_COLUMNS
from tidemark.numbering import rule
from tidemark.partitioning.keys import BucketSize
from tidemark.spark.local_rows import local_rows
from tidemark.spark.read_once import shuffled_once
from tidemark.tag_write import evidence, numbering, transform
from tidemark.validate.findings import checks
from tidemark.validate.tag_views import finding_kinds

ALL_KEYS = "spark.sql.requireAllClusterKeysForCoPartition"
DELETED = "persistence_id string, deleted_to bigint"
KNOWN = "persistence_id string, known_to bigint, read_to bigint"
ENTRIES = "persistence_id string, sequence_nr bigint, ticks bigint, tag_position int"
ACCUSED = (
    checks.WRONG_NUMBER.name,
    checks.DOUBLED_ROW.name,
    checks.EXTRA_ROW.name,
    checks.WRONG_TIME_BUCKET.name,
)


PUT_RIGHT = {*finding_kinds.OF_ROWS, *finding_kinds.OF_PROGRESS, checks.SCANNING_AHEAD.name}


@dataclass(frozen=True)
class Case:
    """A journal in which some events are new.

    Attributes:
        stored: what the tables hold.
        complete_to: the tail; 0 without one.
        is_foreign: somebody wrote numbers or progress that were never right.
    """

    stored: History
    complete_to: int
    is_foreign: bool


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw deleted fronts, lost events, purged rows, progress behind, missing and foreign."""
    tags = st.sampled_from(["", "a", "a", "ab", "b"])
    drawn = draw(st.lists(st.tuples(st.integers(0, 5), tags), min_size=2, max_size=10))
    truth = History.whole(*sorted(drawn, key=lambda event: event[0]))
    last = len(drawn)
    written_to = draw(st.integers(0, last))
    rows = {row for row in truth.rows if row.event.number <= written_to}
    progress = {}
    is_whole = True
    for tag in "ab":
        of_tag = sorted((row for row in rows if row.tag == tag), key=lambda row: row.number)
        behind = draw(st.sampled_from([0, 0, 0, 1, 2, len(of_tag)]))
        is_whole &= not (of_tag and behind)
        if of_tag[behind:]:
            row = of_tag[-1 - behind]
            progress[tag] = Progress(row.event.number, row.number, row.event.timestamp)
    deleted_to = draw(st.sampled_from([0, 0, min(2, written_to), written_to]))
    lost = draw(st.sets(st.integers(1, last), max_size=2))
    purged = {
        row
        for row in sorted(rows)
        if draw(st.sampled_from([False, False, False, row.event.number <= 4]))
    }
    history = replace(
        truth,
        events=frozenset(
            event
            for event in truth.events
            if event.number > deleted_to and event.number not in lost
        ),
        rows=frozenset(rows - purged),
        progress=progress,
        scanned_to=written_to or None,
        deleted_to=deleted_to or None,
    )
    is_foreign = draw(st.sampled_from([False, False, True]))
    if is_foreign and history.rows:
        row = draw(st.sampled_from(sorted(history.rows)))
        history = history.without_rows(row).with_rows(
            row._replace(number=row.number + draw(st.integers(1, 3)))
        )
    if is_foreign and progress:
        tag = draw(st.sampled_from(sorted(progress)))
        off = draw(st.sampled_from([-1, 1, 3]))
        number = max(1, progress[tag].number + off)
        history = history.with_progress(tag, progress[tag]._replace(number=number))
        is_whole = False
    # Progress that is missing, or stands before the tail, voids it; and whoever writes numbers
    # that were never right in both progress and its row is found by a look at everything alone.
    complete_to = draw(st.sampled_from([0, written_to])) if is_whole else 0
    return Case(history, complete_to, is_foreign)


def numbers_of(
    spark: SparkSession, journal: Journal, complete: dict[str, int]
) -> tuple[dict[str, list[tuple[Any, ...]]], set[str]]:
    """Return the numbers that tag-write gives, as (tag, sequence nr, number), and the ids held."""
    keys = keys_of(spark, journal)
    known = local_rows(spark, [(pid, to, to) for pid, to in complete.items() if to], KNOWN)
    to = F.coalesce("known_to", F.lit(0))
    index = (
        keys.index.withColumn("unwritable_tags", F.lit(None).cast("array<string>"))
        .join(known, on="persistence_id", how="left")
        .where(F.col("sequence_nr") > to)
        .drop("known_to", "read_to")
    )

    def ask(wanted: DataFrame) -> DataFrame:
        named = wanted.withColumnsRenamed({"tag_name": "tag", "timebucket": "time_bucket"})
        return keys.rows.join(named, on=named.columns, how="left_semi")

    planned = {event.time_bucket for history in journal.values() for event in history.events}
    begun = evidence.NumberingInputs(keys.progress, known, (), planned, BucketSize.HOUR)
    found = evidence.numbered(index, begun, ask)
    events = numbering.numbered(found.points, found.contradicted, found.reached, known)
    numbers: dict[str, list[tuple[Any, ...]]] = {pid: [] for pid in journal}
    for row in events.where("tag IS NOT NULL").collect():
        numbers[row.persistence_id].append((row.tag, row.sequence_nr, row.tag_pid_sequence_nr))
    held = {row.persistence_id for row in found.contradicted.collect()}
    return numbers, held


def written(history: History, numbers: list[tuple[Any, ...]]) -> History:
    """Return the history after tag-write has written these numbers and their progress."""
    events = {event.number: event for event in history.events}
    for tag, nr, number in sorted(numbers, key=lambda one: one[1]):
        event = events[nr]
        history = history.with_rows(Row(tag, number, event, event.time_bucket))
        reached = history.progress.get(tag)
        if reached is None or nr > reached.sequence_nr:
            history = history.with_progress(tag, Progress(nr, number, event.timestamp))
    return history


@dataclass(frozen=True)
class Looks:
    """What tag-write and check make of the cases, by persistence id.

    Attributes:
        cases: the journals.
        numbers: what tag-write gives, as (tag, sequence nr, number).
        held: the ids that it leaves alone.
        found: what check finds.
        found_after: what check finds once tag-write has written.
        mended: the journals after a repair of what is found.
        found_again: what a repair would put right then.
        held_again: the ids that tag-write leaves alone then.
    """

    cases: dict[str, Case]
    numbers: dict[str, list[tuple[Any, ...]]]
    held: set[str]
    found: dict[str, list[Finding]]
    found_after: dict[str, list[Finding]]
    mended: Journal
    found_again: list[Finding]
    held_again: set[str]


@pytest.fixture(scope="module")
def looks(spark: SparkSession, examples: Examples) -> Looks:
    drawn = {f"p{i}": case for i, case in enumerate(examples(cases(), 200))}
    journal = {pid: case.stored for pid, case in drawn.items()}
    numbers, held = numbers_of(
        spark, journal, {pid: case.complete_to for pid, case in drawn.items()}
    )
    after = {
        f"{pid} after": written(history, numbers[pid])
        for pid, history in journal.items()
        if pid not in held
    }
    findings = findings_of(spark, journal | after)
    by_id: dict[str, list[Finding]] = {pid: [] for pid in [*journal, *after]}
    for finding in findings:
        by_id[finding["persistence_id"]].append(finding)
    of_stored = [finding for finding in findings if finding["persistence_id"] in journal]
    mended, _ = repaired(spark, journal, of_stored)
    again = [f for f in findings_of(spark, mended) if f["check_name"] in PUT_RIGHT]
    return Looks(
        drawn,
        numbers,
        held,
        {pid: by_id[pid] for pid in journal},
        {pid: by_id[f"{pid} after"] for pid in journal if pid not in held},
        mended,
        again,
        numbers_of(spark, mended, {})[1],
    )


def test_check_does_not_accuse_what_tag_write_wrote(looks: Looks) -> None:
    assert 0 < len(looks.held) < len(looks.cases) / 2
    for pid, findings in looks.found_after.items():
        for finding in findings:
            fact = (finding["tag"], finding["sequence_nr"], finding["tag_pid_sequence_nr"])
            is_accused = finding["check_name"] in ACCUSED and fact in looks.numbers[pid]
            assert not is_accused, (
                f"CASE {looks.cases[pid]} FINDING {finding} NUMBERS {looks.numbers[pid]}"
            )


def test_no_number_is_given_twice(looks: Looks) -> None:
    for pid, case in looks.cases.items():
        last = max((event.number for event in case.stored.events), default=0)
        is_cut = any(progress.sequence_nr > last for progress in case.stored.progress.values())
        if case.is_foreign or is_cut:
            continue  # What names a lost tail is held, and found.
        assert pid not in looks.held, str(case)
        rows = {(row.tag, row.event.number): row.number for row in case.stored.rows}
        rows |= {(tag, nr): number for tag, nr, number in looks.numbers[pid]}
        assert len({(tag, number) for (tag, _), number in rows.items()}) == len(rows), case
        for row in case.stored.rows:
            assert rows[row.tag, row.event.number] == row.number, case


def test_what_is_held_is_found_and_goes_on_after_a_repair(looks: Looks) -> None:
    for pid in looks.held:
        kinds_found = {finding["check_name"] for finding in looks.found[pid]}
        assert kinds_found & PUT_RIGHT, looks.cases[pid]
    held = {pid: (looks.cases[pid], looks.mended[pid]) for pid in looks.held_again}
    assert not held, str(held)


def test_repair_changes_no_row_that_no_other_row_contradicts(looks: Looks) -> None:
    """Nor progress, but forward. A second repair has nothing to do."""
    for pid, case in looks.cases.items():
        assert (case, looks.mended[pid]) == (case, as_repaired(case.stored))
        if case.is_foreign:
            continue
        assert case.stored.rows <= looks.mended[pid].rows, str(case)
        last = max((event.number for event in case.stored.events), default=0)
        for tag, progress in case.stored.progress.items():
            if progress.sequence_nr > last:
                continue  # The actor will use the sequence nrs of a lost tail again.
            mended = looks.mended[pid].progress.get(tag)
            number = mended.number if mended else 0
            assert number >= progress.number, f"{tag} of {case}"
    assert looks.found_again == []


def test_what_metadata_calls_deleted_is_not_there(spark: SparkSession) -> None:
    """Of `cut` 1 to 3 came out of a read, 4 to 6 were deleted by then."""
    ids = {"cut": [1, 2, 3, 7, 8], "behind": [7, 8], "lost": [1, 2, 4], "ended": [1, 2, 3]}
    read = local_rows(spark, [(pid, nr, nr, 0) for pid, nrs in ids.items() for nr in nrs], ENTRIES)
    deleted = local_rows(spark, [("cut", 6), ("behind", 6), ("ended", 9)], DELETED)
    cut = message_rows.with_deleted_messages(read, deleted)
    left = message_rows.without_deleted_messages(read, cut).collect()
    for pid, nrs in {**ids, "cut": [7, 8], "ended": []}.items():
        assert sorted(row.sequence_nr for row in left if row.persistence_id == pid) == nrs


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_payloads_are_not_shuffled_a_second_time(
    spark: SparkSession, partitions: None, adaptive: str
) -> None:
    """Payloads are most of the data of a run, so only keys and numbers may be shuffled again."""
    key = "spark.sql.adaptive.enabled"
    before = {name: str(spark.conf.get(name)) for name in (key, ALL_KEYS)}
    spark.conf.set(ALL_KEYS, "false")
    spark.conf.set(key, adaptive)
    try:
        read = spark.range(0, 100, 1, 4).selectExpr(
            "concat('p', id % 7) AS persistence_id",
            "id AS sequence_nr",
            "id AS ticks",
            "cast(id AS string) AS timestamp",
            "0L AS time_bucket",
            "array('t', 'u') AS tags",
            "cast(null AS string) AS cause",
            *[f"cast('1' AS {WHOLE_MESSAGES[name]}) AS {name}" for name in PAYLOAD_COLUMNS],
        )
        kept = shuffled_once(read, "persistence_id")
        ranked = rule.ranked(kept.drop(*PAYLOAD_COLUMNS)).localCheckpoint()
        rows = transform.with_payload(ranked, kept)
        assert payload_exchanges(rows._jdf.queryExecution().executedPlan()) == 0
        assert rows.count() == 200
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def payload_exchanges(plan: Any) -> int:
    """Return the number of exchanges of a plan that have a payload column in their output."""
    if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        plan = plan.executedPlan()
    output = [plan.output().apply(n).name() for n in range(plan.output().size())]
    is_one = "Exchange" in plan.getClass().getSimpleName() and "event" in output
    children = plan.children()
    below = sum(payload_exchanges(children.apply(n)) for n in range(children.size()))
    return int(is_one) + below
