"""The state of the system as the room `status` reads it, on a real Cassandra and without Spark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import pytest

from embedded.cassandra.server import Endpoint
from tests.integration.pool import Pool
from tests.integration.project.projections import (
    LATEST,
    LATEST_TABLE,
    TOTALS,
    TOTALS_TABLE,
    Projections,
)
from tests.integration.status.status_reading import (
    HOUR_MS,
    Ledger,
    context,
    counted_requests,
    insert_finding,
    with_settings,
)
from tests.integration.support import Journal
from tidemark import clock
from tidemark.application.guarded_change import Plan, apply_plan, show_plan
from tidemark.cassandra.schema import SCHEMA_DIR, create_tables, table
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.model import Group
from tidemark.event_groups.operating.status import run_status as run_groups_status
from tidemark.event_groups.stream.states import GroupState
from tidemark.event_groups.stream.store import Stream
from tidemark.ledger import quarantine
from tidemark.ledger.frontier import partition, retention
from tidemark.ledger.locks import Locks
from tidemark.ledger.piece import State
from tidemark.ledger.reading import pieces
from tidemark.ledger.runs import note_end, write_report
from tidemark.project.definition import catalog
from tidemark.project.management.status import run_status
from tidemark.project.offset_store import management_state
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.purge.policies.pieces import PolicyPieces
from tidemark.replicate.kafka.topics import Offsets, TopicPartition, Topics
from tidemark.replicate.progress import replicated_to
from tidemark.replicate.progress.replicated_to import UpTo
from tidemark.replicate.tables import pointers
from tidemark.status import (
    event_groups,
    findings,
    overview,
    projections,
    purges,
    replication,
    runs,
    time_buckets,
)
from tidemark.status.as_json import as_json
from tidemark.status.findings import FindingRow
from tidemark.status.page import Page
from tidemark.status.projections import Condition
from tidemark.status.rules import PartState as LineState
from tidemark.validate import store, stored_findings
from tidemark.validate.findings.check import Severity
from tidemark.validate.stored_findings import WantedFindings
from tidemark.window import from_millis, to_millis

FIRST = datetime(2024, 3, 1, tzinfo=UTC)
DAILY = timedelta(days=1)
HOUR = timedelta(hours=1)
T = TypeVar("T")


@pytest.fixture
def journal(pool: Pool, cassandra: Endpoint, tmp_path: Path) -> Iterator[Journal]:
    """Yield an empty journal, for tests that start no Spark."""
    keyspaces = pool.take()
    made = Journal.over(
        pool.control,
        cassandra.environment(),
        keyspaces.journal,
        keyspaces.own,
        LOCK_TTL="600",
        PROJECTIONS_DIR=str(tmp_path),
    )
    yield made
    pool.give_back(keyspaces)


def all_pages(read: Callable[[str | None], Page[T]]) -> list[T]:
    """Read pages up to the last one."""
    items: list[T] = []
    after: str | None = None
    for _ in range(1000):
        page = read(after)
        items += page.items
        after = page.next
        if after is None:
            return items
    raise AssertionError("the pages do not end")


def filtered(run: RunContext, wanted: WantedFindings, limit: int) -> list[FindingRow]:
    """Return the wanted open findings of all pages."""
    return all_pages(lambda after: findings.open_findings(run, wanted, limit=limit, after=after))


def at(hour: int) -> datetime:
    return FIRST + timedelta(hours=hour)


class TestTimeBuckets:
    def test_states_are_counted_by_application(self, journal: Journal) -> None:
        tag_write = Ledger(journal, FIRST)
        tag_write.end(State.DONE, 0, 1, 2, 7)
        tag_write.end(State.FAILED, 3, 5, error="no such table")
        tag_write.note(8)
        Ledger(journal, FIRST, "validate").end(State.DONE, 0)

        found = all_pages(
            lambda after: time_buckets.ledgers(context(journal), limit=1, after=after)
        )

        assert [one.application for one in found] == ["tag-write", "validate"]
        ledger = found[0]
        assert ledger.states == {"done": 4, "failed": 2, "planned": 1}
        assert (ledger.first, ledger.done_until, ledger.newest_done) == (at(0), at(3), at(8))
        assert ledger.missing == 2
        assert ledger.failed == time_buckets.FailedSpan(at(3), at(6))
        assert ledger.error == "no such table"
        assert ledger.failed_since is not None
        assert ledger.failed_since <= (ledger.last_ended or FIRST)

    @pytest.mark.parametrize("limit", [1, 3, 7, 100])
    def test_pages_have_every_time_bucket_once_also_those_without_rows(
        self, journal: Journal, limit: int
    ) -> None:
        """Rows that purge has deleted from the ledger are in the frontier."""
        ledger = Ledger(journal, FIRST)
        with patch.object(partition, "TAKEN_UP_FROM", 1), patch.object(partition, "LEFT_OUT", 0):
            ledger.end(State.DONE, *range(12))
            deleted_before = to_millis(clock.now()) + 1
            for rows in retention.old_rows(journal.control, journal.settings(), deleted_before):
                rows.delete()
            ledger.end(State.HELD, 4, 13, error="gap: p|1 2 missing")
            ledger.end(State.FAILED, 9, 15, 16, 17, error="wrong")
            ledger.end(State.DONE, 14)
        assert len(journal.own_rows("piece")) < 17
        run = context(journal)

        def read(state: State | None) -> list[tuple[datetime, State]]:
            found = all_pages(
                lambda after: time_buckets.time_buckets(
                    run, "tag-write", state=state, limit=limit, after=after
                )
            )
            return [(one.time_bucket, one.state) for one in found]

        expected = [
            (from_millis(one.time_bucket), one.state) for one in reversed(ledger.pieces.entries())
        ]
        assert len(expected) == 17
        assert read(None) == expected
        for state in State:
            assert read(state) == [each for each in expected if each[1] is state]

    def test_a_bounded_read_says_that_it_is_one(self, journal: Journal) -> None:
        ledger = Ledger(journal, FIRST)
        ledger.end(State.DONE, 0)
        ledger.end(State.FAILED, *range(1, 30), error="wrong")

        with patch.object(pieces, "MOST_ROWS", 10):
            [found] = time_buckets.ledgers(context(journal), limit=5).items

        assert not found.is_complete
        assert found.missing is None
        assert found.states == {"done": 1, "failed": 9}

    def test_a_token_of_another_answer_is_rejected(self, journal: Journal) -> None:
        run = context(journal)
        Ledger(journal, FIRST).end(State.DONE, 0, 1, 2)
        token = time_buckets.time_buckets(run, "tag-write", limit=1).next
        assert token is not None
        with pytest.raises(InvalidInput, match="no token of a page of ledgers"):
            time_buckets.ledgers(run, limit=1, after=token)
        with pytest.raises(InvalidInput, match="no token"):
            time_buckets.ledgers(run, limit=1, after="x!")


class TestProjections:
    @pytest.fixture
    def defined(self, journal: Journal, tmp_path: Path) -> Projections:
        defined = Projections(journal, tmp_path)
        defined.define(TOTALS, TOTALS_TABLE, "totals.sql")
        defined.define(LATEST, LATEST_TABLE, "latest.sql")
        return defined

    @staticmethod
    def ledger_of(journal: Journal, name: str) -> Ledger:
        settings = journal.settings()
        [definition] = catalog.select(settings.projections_dir, [name]).definitions
        subject = definition.subject(settings.journal_keyspace)
        return Ledger(journal, FIRST, "project", subject, definition.fingerprint)

    @staticmethod
    def store_of(journal: Journal, name: str) -> OffsetStore:
        settings = journal.settings()
        [definition] = catalog.select(settings.projections_dir, [name]).definitions
        return OffsetStore(journal.control, settings, definition)

    @pytest.mark.usefixtures("defined")
    def test_the_figures_are_those_of_project_status(self, journal: Journal) -> None:
        """One question has one answer, whoever asks: lag, gap, its age, and the estimate."""
        validate = Ledger(journal, FIRST, "validate")
        counts = {"messages_checked": 40, "tag_rows_checked": 70}
        validate.end(State.DONE, *range(8), counts=counts)
        totals = self.ledger_of(journal, "totals")
        totals.end(State.DONE, 0, 1, 4)
        totals.end(State.HELD, 2, 3, error="gap: p|1 red 4..6 missing")
        latest = self.ledger_of(journal, "latest")
        latest.end(State.DONE, *range(7))
        latest.end(State.FAILED, 7, error="the payload is no JSON")
        store = self.store_of(journal, "latest")
        before = management_state.pause_state(store)
        management_state.set_paused(store, before, paused=True, owner="ann")

        found = all_pages(
            lambda after: projections.projections(context(journal), limit=1, after=after)
        )
        told = run_status(context(journal, "project"), []).details["projections"]

        assert isinstance(told, Sequence)
        assert [one.name for one in found] == [each["name"] for each in told]
        for one, each in zip(found, told, strict=True):
            assert one.lag_seconds.number == each["lag_seconds"]
            assert one.open.number == each["open"]
            assert one.lag_events.number == each["rows_estimated"]
            assert one.states == each["pieces"]
            assert one.gap_age_seconds.number == each["gap_age_seconds"]
            assert one.gap == (each["gap"] or "")
            assert bool(one.paused_at) == each["paused"]
        latest_found, totals_found = found
        assert (latest_found.condition, latest_found.paused_by) == (Condition.FAILED, "ann")
        assert totals_found.condition is Condition.HELD
        assert totals_found.oldest_gap == at(2)
        assert totals_found.gap_age_seconds.number == 6 * 3600
        assert totals_found.lag_events.number == 5 * 70
        assert totals_found.held.number == 2

    @pytest.mark.usefixtures("defined")
    def test_paused_not_begun_and_quarantined(self, journal: Journal) -> None:
        store = self.store_of(journal, "latest")
        before = management_state.pause_state(store)
        management_state.set_paused(store, before, paused=True, owner="ann")
        record = {
            "source": f"{journal.keyspace}.tag_views",
            "application": "project/totals",
            "persistence_id": "p|1",
            "sequence_nr": 1,
            "timestamp": uuid.uuid1(),
            "cause": "no JSON",
        }
        quarantine.write_one(journal.control, journal.settings(), record, run_id="r")

        latest, totals = projections.projections(context(journal), limit=10).items

        assert (latest.condition, latest.paused_by) == (Condition.PAUSED, "ann")
        assert totals.condition is Condition.NOT_BEGUN
        assert totals.quarantined.number == 1

    def test_a_file_that_cannot_be_used_and_a_dropped_table_are_named(
        self, journal: Journal, defined: Projections
    ) -> None:
        self.ledger_of(journal, "totals").end(State.DONE, 0)
        journal.control.execute_ddl(f"DROP TABLE {table(journal.keyspace, 'totals')}")
        (defined.directory / "latest.sql").write_text("/*---\nname: latest\n---*/\nSELECT 1\n")

        latest, totals = projections.projections(context(journal), limit=10).items

        assert latest.condition is Condition.UNUSABLE
        assert "latest.sql" in latest.problem
        assert totals.condition is Condition.TABLE_MISSING
        assert "does not exist any more" in totals.problem

    @pytest.mark.usefixtures("defined")
    def test_a_ledger_of_several_bucket_sizes_has_no_lag(self, journal: Journal) -> None:
        Ledger(journal, FIRST, "validate").end(State.DONE, *range(30))
        by_day = with_settings(journal, BUCKET_SIZE="Day")
        self.ledger_of(by_day, "totals").end(State.DONE, 0)
        self.ledger_of(journal, "totals").end(State.DONE, 24)

        totals = projections.projections(context(journal), limit=10).items[1]

        assert totals.lag_seconds.number is None
        assert "several bucket sizes" in totals.lag_seconds.unknown


class TestFindings:
    def test_settled_findings_are_not_open(self, journal: Journal) -> None:
        settings = journal.settings()
        insert_finding(
            journal, "sequence_nr_gap", "p|1", bucket=at(0), severity="blocks", since=FIRST
        )
        insert_finding(
            journal, "progress_behind", "p|2", bucket=at(1), severity="warns", since=FIRST
        )
        insert_finding(
            journal, "partition_too_large", "p|3", bucket=None, severity="warns", since=FIRST
        )
        other = replace(journal, keyspace="another_journal")
        insert_finding(
            other, "sequence_nr_gap", "p|9", bucket=at(0), severity="blocks", since=FIRST
        )
        blocking = list(store.open_findings(journal.control, settings))
        assert [row["persistence_id"] for row in blocking] == ["p|1"]
        store.settle(journal.control, settings, blocking, "restored by hand", "ann")
        run = context(journal)

        opened = all_pages(lambda after: findings.open_findings(run, limit=1, after=after))
        settled = all_pages(lambda after: findings.settled_findings(run, limit=1, after=after))

        assert {(one.persistence_id, one.blocks, one.time_bucket) for one in opened} == {
            ("p|2", False, at(1)),
            ("p|3", False, None),
        }
        assert [(one.persistence_id, one.reason, one.owner) for one in settled] == [
            ("p|1", "restored by hand", "ann")
        ]

    def test_filters_hold_across_pages(self, journal: Journal) -> None:
        for number in range(40):
            insert_finding(
                *(journal, "sequence_nr_gap" if number % 4 else "progress_behind", f"p|{number}"),
                bucket=at(number % 5),
                severity="blocks" if number % 3 else "warns",
                since=FIRST + number * HOUR,
            )
        blocking = list(store.open_findings(journal.control, journal.settings()))
        store.settle(journal.control, journal.settings(), blocking[::2], "restored", "ann")
        run = context(journal)
        everything = findings.open_findings(run, limit=1000).items
        assert len(everything) == 40 - len(blocking[::2])
        cases: list[tuple[WantedFindings, Callable[[FindingRow], object]]] = [
            (WantedFindings(check="progress_behind"), lambda row: row.check == "progress_behind"),
            (WantedFindings(severity=Severity.WARNS), lambda row: not row.blocks),
            (WantedFindings(severity=Severity.BLOCKS), lambda row: row.blocks),
            (WantedFindings(before=at(7)), lambda row: (row.since or at(99)) < at(7)),
            (WantedFindings(time_bucket=at(3)), lambda row: row.time_bucket == at(3)),
            (
                WantedFindings("sequence_nr_gap", Severity.WARNS, at(20), at(1)),
                lambda row: (
                    (row.check, row.blocks, row.time_bucket) == ("sequence_nr_gap", False, at(1))
                    and (row.since or at(99)) < at(20)
                ),
            ),
        ]
        for wanted, is_wanted in cases:
            expected = [row for row in everything if is_wanted(row)]
            for limit in (1, 3, 1000):
                assert filtered(run, wanted, limit) == expected, (wanted, limit)
        settled = WantedFindings(check="sequence_nr_gap", before=clock.now() + HOUR)
        rows = all_pages(
            lambda after: findings.settled_findings(run, settled, limit=2, after=after)
        )
        checks = [row["check_name"] for row in blocking[::2]]
        assert len(rows) == checks.count("sequence_nr_gap") > 0
        with pytest.raises(InvalidInput, match="settled findings have no severity"):
            findings.settled_findings(run, WantedFindings(severity=Severity.WARNS), limit=2)

    def test_a_filter_that_little_passes_is_bounded(
        self, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stored_findings, "_FILTERED", 2)
        for number in range(50):
            persistence_id = f"p|{number}"
            insert_finding(
                *(journal, "sequence_nr_gap", persistence_id),
                bucket=at(0),
                severity="blocks",
                since=FIRST,
            )
        wanted = WantedFindings(check="progress_behind")
        with counted_requests(journal) as (run, requests):
            page = findings.open_findings(run, wanted, limit=50)
            assert (page.items, requests.rows) == ([], 20)
            assert page.next is not None
            assert filtered(run, wanted, 50) == []


class TestPurges:
    def test_policies_and_plans_with_their_approvals(self, journal: Journal) -> None:
        approval = f"{'a' * 64}@2026-11-01T00:00:00Z"
        planned, applied = (context(journal, "purge", name) for name in ("planned", "applied"))
        done, failed = PolicyPieces(applied), PolicyPieces(applied)
        done.finish("old-rows", done.start("old-rows"), State.DONE, {"rows_deleted": 7})
        failed.finish("skipped", failed.start("skipped"), State.FAILED, {}, "a lock was lost")
        plan = Plan({"rows_deleted": 7}, ["old-rows"], lambda _: {"rows_deleted": 7})
        show_plan(planned, "purge", journal.keyspace, plan)
        apply_plan(applied, "purge", journal.keyspace, plan, lambda: None)
        show_plan(context(journal, "reconcile", "r"), "repair", journal.keyspace, plan)
        report = {
            "run_id": "planned",
            "application": "purge",
            "state": "planned",
            "details": {"approval": approval, "tombstones": 7},
        }
        write_report(
            journal.control,
            journal.own_keyspace,
            report,
            started_at=clock.now(),
            finished_at=clock.now(),
            ttl=1000,
        )
        run = context(journal)

        policies = all_pages(lambda after: purges.policies(run, limit=1, after=after))
        plans = all_pages(lambda after: purges.plans(run, limit=1, after=after))

        assert [(one.name, one.state, one.error) for one in policies] == [
            ("old-rows", State.DONE, None),
            ("skipped", State.FAILED, "a lock was lost"),
        ]
        assert [(one.state, one.run_id, one.approval, one.tombstones) for one in plans] == [
            ("applied", "applied", "", None),
            ("started", "applied", "", None),
            ("planned", "planned", approval, 7),
        ]


class TestReplication:
    @pytest.fixture
    def replicated(self, journal: Journal) -> Journal:
        """Return a journal with kafka-journal's tables beside those of Pekko."""
        create_tables(journal.control, SCHEMA_DIR / "kafka_journal.cql", journal.keyspace)
        return with_settings(journal, KAFKA_JOURNAL_KEYSPACE=journal.keyspace)

    @staticmethod
    def hold(journal: Journal, partition: TopicPartition, key: str, *offsets: int) -> None:
        """Insert held records as `replication.quarantine.write` does, with Spark."""
        journal.control.execute_many(
            f"INSERT INTO {table(journal.own_keyspace, 'quarantined_record')}"
            " (journal_keyspace, topic, partition, state, id, offset, found_at)"
            " VALUES (?, ?, ?, 'held', ?, ?, ?)",
            [
                (journal.keyspace, partition.topic, partition.partition, key, offset, FIRST)
                for offset in offsets
            ],
        )

    def test_topic_partitions_with_their_lag_and_held_keys(
        self, replicated: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = context(replicated, "replicate")
        names = [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("t", 0)]
        now = clock.now()
        replicated_to.write(run, {one: UpTo(now - timedelta(minutes=5), 100) for one in names})
        pointers.write(replicated.control, run.settings, dict.fromkeys(names, 99), now, {})
        self.hold(replicated, names[1], "order-7", 40, 41)
        self.hold(replicated, names[1], "order-8", 50)
        ends = {one: Offsets(0, 100 + at, 100 + at) for at, one in enumerate(names)}
        monkeypatch.setattr(Topics, "partitions", lambda _: names[1:])
        monkeypatch.setattr(Topics, "offsets", lambda _, wanted: {one: ends[one] for one in wanted})

        found = all_pages(lambda after: replication.partitions(run, limit=1, after=after))
        asked = replication.partitions(run, limit=10, asks_kafka=True).items
        keys = all_pages(lambda after: replication.held_keys(run, limit=1, after=after))

        assert [(one.topic, one.partition) for one in found] == [
            (one.topic, one.partition) for one in names
        ]
        assert [one.lag_events.unknown for one in found] == [replication.NOT_ASKED] * 3
        assert all(300 <= one.lag_seconds <= 400 for one in found)
        assert [one.held_keys.number for one in found] == [0, 2, 0]
        assert [one.held_records.number for one in found] == [0, 3, 0]
        assert found[1].held_since == FIRST
        assert {one.next_offset for one in found} == {100}
        assert [one.lag_events.number for one in asked] == [None, 1, 2]
        assert [(str(one.partition), one.key, one.records, one.first) for one in keys] == [
            ("orders/1", "order-7", 2, 40),
            ("orders/1", "order-8", 1, 50),
        ]


class TestGroups:
    @staticmethod
    def submit(stream: Stream, name: str, *ids: int) -> None:
        events = [
            {
                "name": f"e{number}",
                "statement": "UPDATE shop.orders SET total = :t WHERE id = :id",
                "values": {"t": "1", "id": str(number)},
            }
            for number in ids
        ]
        group = Group.model_validate(
            {
                "group": name,
                "rows": [{"table": "shop.orders", "key": {"id": str(number)}} for number in ids],
                "events": events,
            }
        )
        stream.submit(GroupDefinition.stored(name, group.model_dump_json(by_alias=True)))

    def test_open_and_held_groups_are_those_of_run_event_groups_status(
        self, journal: Journal
    ) -> None:
        run = context(journal, "run-event-groups")
        stream = Stream(run, "default")
        for number, (name, ids) in enumerate(
            [("ended", (1,)), ("stuck", (1,)), ("waits", (1, 2)), ("free", (3,)), ("also", (2,))]
        ):
            self.submit(stream, name, *ids)
            assert stream.next_sequence() == number + 2
        stream.set_state("ended", GroupState.SUBMITTED, GroupState.DONE)
        stream.set_state("stuck", GroupState.SUBMITTED, GroupState.ROLLBACK_FAILED, "no answer")

        [found] = event_groups.streams(run, limit=10).items
        told = run_groups_status(run, "default", None)
        groups = event_groups.groups(run, "default", limit=10).items

        assert found.open.number == told.counts["groups_open"] == 4
        assert found.held.number == told.counts["groups_held"] == 2
        assert (found.stuck, found.oldest_open) == (["stuck"], "stuck")
        assert [(one.group, one.held_by) for one in groups] == [
            ("stuck", ""),
            ("waits", "stuck"),
            ("free", ""),
            ("also", "stuck"),
        ]

    def test_pages_have_every_open_group_once(self, journal: Journal) -> None:
        run = context(journal, "run-event-groups")
        stream = Stream(run, "default")
        for number in range(7):
            self.submit(stream, f"g{number}", number)
        stream.set_state("g3", GroupState.SUBMITTED, GroupState.CANCELLED)

        found = all_pages(lambda after: event_groups.groups(run, "default", limit=2, after=after))

        assert [one.group for one in found] == ["g0", "g1", "g2", "g4", "g5", "g6"]


class TestRuns:
    def test_a_run_says_how_far_it_is_and_whether_it_lives(self, journal: Journal) -> None:
        run = context(journal, "project", "project/manual__2026/1")
        run.started_at = run.moment - timedelta(seconds=100)
        ledger = Ledger(journal, FIRST, "project", f"{journal.keyspace}/totals")
        ledger.start(*range(4), run=run)
        reader = context(journal)

        with Locks.of(run, [f"project/{journal.keyspace}/totals"]):
            [begun] = runs.runs_page(reader, limit=5).items
            ledger.end(State.DONE, 0, counts={"events_read": 5000}, run=run)
            [half] = runs.runs_page(reader, limit=5).items
        [died] = runs.runs_page(reader, limit=5).items

        assert (begun.state, begun.pieces_done, begun.pieces_started) == ("running", 0, 4)
        assert begun.seconds_left.number is None
        assert (half.pieces_done, half.pieces_started) == (1, 5)
        assert half.rows.number == 5000
        assert 40 <= (half.rows_per_second.number or 0) <= 50
        assert 400 <= (half.seconds_left.number or 0) <= 500
        assert half.started_by == run.owner
        assert died.state == runs.DIED

    def test_ended_runs_of_several_days_come_in_pages(self, journal: Journal) -> None:
        names = [f"run{number}" for number in range(5)]
        for number, name in enumerate(names):
            run = context(journal, "validate", name)
            # Two on each day; the days before them have none.
            run.started_at = run.moment - timedelta(days=40 * (number // 2), seconds=number)
            note_end(
                run,
                {
                    "state": "failed",
                    "pieces": {"planned": 3, "done": number},
                    "error": "a check failed",
                },
            )
        reader = context(journal)

        found = all_pages(lambda after: runs.runs_page(reader, limit=1, after=after))

        assert [one.run_id for one in found] == names
        assert {one.state for one in found} == {"failed"}
        assert {one.error for one in found} == {"a check failed"}
        assert [one.pieces_done for one in found] == [0, 1, 2, 3, 4]


class TestOverview:
    @staticmethod
    def lines(run: RunContext, period: timedelta | None = DAILY) -> dict[str, Any]:
        found = overview.overview(run, period)
        return {line.subject: line for line in found.lines} | {"": found}

    def test_nothing_has_run_yet(self, journal: Journal) -> None:
        found = self.lines(context(journal))
        assert found[""].state is LineState.EMPTY
        assert found["journal"].state is LineState.OK
        assert {found[name].what for name in ("tag views", "checks", "replication", "groups")} == {
            "nothing has run yet"
        }

    def test_there_are_no_tables_yet(self, journal: Journal) -> None:
        """Nothing is created by looking."""
        absent = with_settings(journal, KEYSPACE=f"{journal.own_keyspace}_absent")
        found = self.lines(context(absent))
        assert found[""].state is LineState.EMPTY
        assert not journal.control.has_keyspace(f"{journal.own_keyspace}_absent")

    def test_nothing_has_run_since(self, journal: Journal) -> None:
        with patch.object(clock, "now", lambda: FIRST + timedelta(hours=30)):
            for application in ("tag-write", "validate"):
                Ledger(journal, FIRST, application).end(State.DONE, *range(24))
        with patch.object(clock, "now", lambda: FIRST + timedelta(days=5)):
            found = self.lines(context(journal))
            without_schedule = self.lines(context(journal), None)
        assert found["tag views"].state is LineState.STOPPED
        assert "nothing has run since Saturday 2024-03-02 06:00" in found["tag views"].what
        assert found["tag views"].since == FIRST + timedelta(hours=30)
        assert found["checks"].state is LineState.OK
        assert found[""].state is LineState.STOPPED
        assert found[""].last_ended == FIRST + timedelta(hours=30)
        assert without_schedule["tag views"].state is LineState.OK
        assert without_schedule[""].state is LineState.OK

    def test_bad_things_name_their_remedies(self, journal: Journal) -> None:
        with patch.object(clock, "now", lambda: FIRST + timedelta(hours=30)):
            tag_write = Ledger(journal, FIRST)
            tag_write.end(State.DONE, *range(24))
            tag_write.end(State.FAILED, 24, 26, error="wrong bucket size")
        insert_finding(
            journal, "sequence_nr_gap", "p|1", bucket=at(0), severity="blocks", since=FIRST
        )
        run = context(journal, "purge")
        policies = PolicyPieces(run)
        attempt = policies.start("old-rows")
        policies.finish("old-rows", attempt, State.FAILED, {}, "no such table")

        found = self.lines(context(journal))

        assert found[""].state is LineState.BAD
        assert found["tag views"].remedy == (
            "spark_apps/tag_write.py --window-start 2024-03-02T00:00:00Z"
            " --window-end 2024-03-02T03:00:00Z"
        )
        assert found["tag views"].since == FIRST + timedelta(hours=30)
        assert found["checks"].state is LineState.BAD
        assert found["checks"].remedy == "spark_apps/reconcile.py repair --from-findings"
        assert found["checks"].since == FIRST
        assert found["purge"].remedy == "spark_apps/purge.py --policy old-rows"

    def test_a_journal_that_is_not_there_is_bad_once_something_has_run(
        self, journal: Journal
    ) -> None:
        Ledger(journal, FIRST).end(State.DONE, 0)
        journal.control.execute_ddl(f"DROP TABLE {table(journal.keyspace, 'tag_views')}")
        found = self.lines(context(journal))
        assert found["journal"].state is LineState.BAD
        assert "tag_views" in found["journal"].what
        assert found[""].state is LineState.BAD


def test_the_answers_are_json(journal: Journal) -> None:
    Ledger(journal, FIRST).end(State.DONE, 0, counts={"events_read": 3})
    answer = as_json(time_buckets.time_buckets(context(journal), "tag-write", limit=1))
    [time_bucket] = json.loads(json.dumps(answer))["items"]
    assert time_bucket | {"finished_at": None, "version": ""} == {
        "time_bucket": "2024-03-01T00:00:00Z",
        "state": "done",
        "reason": "new",
        "attempt": 1,
        "counts": {"events_read": 3},
        "error": "",
        "version": "",
        "finished_at": None,
        "run_id": "fixture",
    }
    assert journal.settings().bucket_size.milliseconds == HOUR_MS
