"""Answers about a large ledger are bounded: requests, rows, and memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded.cassandra.server import Endpoint
from tests.integration.pool import Pool
from tests.integration.project.projections import TOTALS, TOTALS_TABLE, Projections
from tests.integration.status.large_ledger import ANSWERS, FIRST, LIMIT, work
from tests.integration.status.status_reading import Ledger, Requests, context, counted_requests
from tests.integration.support import Journal
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.ledger.claim import LedgerRecorder
from tidemark.ledger.piece import State
from tidemark.ledger.reading import pieces as pieces_read
from tidemark.status import time_buckets

SMALL = 1_000
MOST_ROWS = 50
"""The bound of the tests: the most rows outside of the frontier that are read of a ledger."""
MOST_PAGES = 200
"""The most pages of rows that one answer may ask for in these tests, whatever the ledger holds."""
GROWING_WITH_IDS = {
    *("messages", "tag_views", "tag_write_progress", "tag_scanning", "metadata"),
    *("all_persistence_ids", "snapshots", "projection_offset", "projection_removed_state"),
    *("tag_write_tail", "validate_tail", "journal", "metajournal"),
}
"""Tables with a row, or more, for each persistence id or event."""


@pytest.fixture
def journals(pool: Pool, cassandra: Endpoint, tmp_path: Path) -> Iterator[list[Journal]]:
    """Yield two empty journals."""
    taken = [pool.take(), pool.take()]
    yield [
        Journal.over(
            *(pool.control, cassandra.environment(), keyspaces.journal, keyspaces.own),
            PROJECTIONS_DIR=str(tmp_path),
            LOCK_TTL="600",
        )
        for keyspaces in taken
    ]
    for keyspaces in taken:
        pool.give_back(keyspaces)


def measured(
    run: RunContext, requests: Requests, answer: Callable[[RunContext], object]
) -> tuple[int, int, int]:
    """Return how many pages and rows an answer asks for, and its peak of memory in bytes."""
    answer(run)  # What is prepared and cached once is not counted.
    requests.forget()
    tracemalloc.start()
    try:
        answer(run)
        return requests.pages, requests.rows, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "number", [4_000, pytest.param(100_000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])]
)
def test_answers_about_many_pieces_cost_what_those_about_few_do(
    journals: list[Journal], number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that 1,000 pieces reach the bound as well: what follows them must cost nothing.
    monkeypatch.setattr(pieces_read, "MOST_ROWS", MOST_ROWS)
    # One definition over both journals, whose ledgers are their own.
    Projections(journals[0], tmp_path).define(TOTALS, TOTALS_TABLE)
    for journal, pieces in zip(journals, (SMALL, number), strict=True):
        work(journal, pieces)

    of_size = {}
    for journal, pieces in zip(journals, (SMALL, number), strict=True):
        with counted_requests(journal) as (run, requests):
            of_size[pieces] = {
                name: measured(run, requests, answer) for name, answer in ANSWERS.items()
            }

    for name, (pages, rows, peak) in of_size[number].items():
        _, _, small_peak = of_size[SMALL][name]
        print(f"{name:12} {pages:4} pages {rows:6} rows {peak:9,} bytes, small {small_peak:9,}")
        assert pages <= MOST_PAGES, name
        assert rows <= 12 * MOST_ROWS, name
        assert peak <= 1.5 * small_peak + 2**16, name


@pytest.mark.parametrize("piece_state", ["failed", "planned"])
def test_a_ledger_of_open_pieces_alone_is_read_up_to_a_bound(
    journals: list[Journal], piece_state: str
) -> None:
    """Nothing of it is in the frontier, so every time bucket is a row outside of it."""
    journal = journals[0]
    ledger = Ledger(journal, FIRST)
    journal.control.execute_many(
        f"INSERT INTO {table(journal.own_keyspace, 'piece')}"
        " (application, subject, bucket_size, time_bucket, state, attempt, error)"
        " VALUES ('tag-write', ?, 'Hour', ?, ?, 1, 'wrong')",
        [(journal.keyspace, ledger.bucket(hour), piece_state) for hour in range(10_000)],
    )
    with counted_requests(journal) as (run, requests):
        [found] = time_buckets.ledgers(run, limit=LIMIT).items
        assert not found.is_complete
        assert found.states == {piece_state: pieces_read.MOST_ROWS}
        assert requests.rows <= pieces_read.MOST_ROWS + 20
        requests.forget()
        page = time_buckets.time_buckets(run, "tag-write", state=State(piece_state), limit=LIMIT)
        assert len(page.items) == LIMIT
        assert page.next is not None
        assert requests.rows <= LIMIT + 20
        requests.forget()
        others = time_buckets.time_buckets(run, "tag-write", state=State.HELD, limit=LIMIT)
        assert (list(others.items), requests.rows <= LIMIT + 20) == ([], True)
        assert others.next is not None


def test_a_ledger_with_holes_everywhere_is_read_in_few_requests(journals: list[Journal]) -> None:
    journal = journals[0]
    ledger = Ledger(journal, FIRST)
    ledger.end(State.DONE, *range(0, 2000, 2))
    ledger.end(State.FAILED, *range(1, 2000, 20), error="wrong")

    with counted_requests(journal) as (run, requests):
        [found] = time_buckets.ledgers(run, limit=LIMIT).items
        pages = requests.pages

    assert pages <= MOST_PAGES
    # The spans of what is done are all known; of the failed ones at least those that were read.
    assert found.states["done"] >= 1000 - 256
    assert 0 < found.states["failed"] <= 100


def test_no_answer_reads_a_table_that_grows_with_persistence_ids(
    journals: list[Journal], tmp_path: Path
) -> None:
    """So a million persistence ids cost what ten do."""
    journal = journals[0]
    Projections(journal, tmp_path).define(TOTALS, TOTALS_TABLE)
    work(journal, 20)
    recorder = LedgerRecorder(Ledger(journal, FIRST).pieces, context(journal, "tag-write"))
    recorder.start(Ledger(journal, FIRST).pieces.plan([Ledger(journal, FIRST).bucket(30)]))

    with counted_requests(journal) as (run, requests):
        asked = {}
        for name, answer in ANSWERS.items():
            requests.forget()
            answer(run)
            asked[name] = set(requests.tables)

    assert "piece" in asked["ledgers"]
    assert "run_of_day" in asked["runs"]
    assert "finding" in asked["findings"]
    assert {name: found & GROWING_WITH_IDS for name, found in asked.items()} == {
        name: set() for name in asked
    }
