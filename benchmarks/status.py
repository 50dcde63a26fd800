"""Measures what `tidemark status` and the page answer, over a small and a large journal.

The small journal has 1,000 persistence ids and 1,000 time buckets, the large one `BENCH_IDS`
(1,000,000) and `BENCH_PIECES` (100,000), with the offsets of a projection over all of them. Each
answer is asked for in turns, on a session that is open. The page is opened `BENCH_ROUNDS` (5) times
in a real browser without a cache, over the large journal, in an Airflow with all DAGs.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import time
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

from playwright.sync_api import BrowserContext, expect
from rich.console import Console
from rich.table import Table

from benchmarks.journals import HISTORY, Bench, fresh_server, settings_of, table_of, window
from benchmarks.slices import define
from embedded.airflow import configuration, rest
from embedded.airflow.server import Airflow
from embedded.paths import STATE
from tests.dags import browser
from tests.integration.project.projections import TOTALS, TOTALS_TABLE, Projections
from tests.integration.status.large_ledger import ANSWERS, work
from tests.integration.status.status_reading import context
from tests.integration.support import Journal
from tidemark.cassandra.control import Control
from tidemark_airflow.pages.state.mount import PREFIX

HOME = STATE / "bench" / "status"
SMALL = 1_000
_PARSED_S = 300.0
_PAINT = """() => {
    const loaded = performance.getEntriesByType("resource");
    const [opened] = performance.getEntriesByType("navigation");
    return {
        first: performance.getEntriesByName("first-contentful-paint")[0].startTime,
        rows: performance.now(),
        bytes: [opened, ...loaded].reduce((sum, entry) => sum + entry.transferSize, 0),
    };
}"""


def main() -> None:
    """Measure and print the tables of benchmarks/README.md."""
    rounds = int(os.environ.get("BENCH_ROUNDS", "5"))
    sizes = {
        "small": (SMALL, SMALL),
        "large": (
            int(os.environ.get("BENCH_IDS", "1000000")),
            int(os.environ.get("BENCH_PIECES", "100000")),
        ),
    }
    shutil.rmtree(HOME, ignore_errors=True)
    console = Console(width=120)
    with fresh_server() as (endpoint, server):
        benches = {name: Bench(endpoint, server, f"status_{name}") for name in sizes}
        environments = {
            name: bench.environment(TIDEMARK_PROJECTIONS_DIR=str(HOME / name))
            for name, bench in benches.items()
        }
        with Control(settings_of(environments["small"])) as control:
            journals = {
                name: _filled(benches[name], control, environments[name], *sizes[name])
                for name in sizes
            }
            console.print(_answers(journals, sizes, rounds))
        console.print(_page(environments["large"], rounds))


def _filled(
    bench: Bench, control: Control, environment: Mapping[str, str], ids: int, pieces: int
) -> Journal:
    """Return a journal with an event and an offset of each persistence id, and three ledgers."""
    bench.create()
    bench.fill(1, 1, 20, ids=ids)
    define(bench, HOME / bench.keyspace.removeprefix("status_"), "latest")
    options = (*window(*HISTORY), "--force", "--projection", "latest")
    directory = Path(environment["TIDEMARK_PROJECTIONS_DIR"])
    bench.run("spark_apps/project.py", *options, TIDEMARK_PROJECTIONS_DIR=str(directory))
    journal = Journal(control, environment, bench.keyspace, environment["TIDEMARK_KEYSPACE"])
    Projections(journal, directory).define(TOTALS, TOTALS_TABLE, file="totals.sql")
    work(journal, pieces)
    return journal


def _answers(
    journals: Mapping[str, Journal], sizes: Mapping[str, tuple[int, int]], rounds: int
) -> Table:
    seconds: dict[tuple[str, str], list[float]] = {}
    peaks: dict[tuple[str, str], int] = {}
    for _ in range(rounds + 1):
        for size, journal in journals.items():
            run = context(journal)
            for name, answer in ANSWERS.items():
                started = time.perf_counter()
                answer(run)
                seconds.setdefault((size, name), []).append(time.perf_counter() - started)
    for size, journal in journals.items():
        run = context(journal)
        for name, answer in ANSWERS.items():
            tracemalloc.start()
            answer(run)
            peaks[size, name] = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    of_sizes = [f"{ids:,} ids, {pieces:,} pieces" for ids, pieces in sizes.values()]
    columns = [f"{unit}, {size}" for unit in ("ms", "KiB") for size in of_sizes]
    table = table_of(f"Answers about the state, medians of {rounds}", *columns)
    for name in ANSWERS:
        # The first time prepares the statements.
        medians = [statistics.median(seconds[size, name][1:]) * 1000 for size in sizes]
        memory = [f"{peaks[size, name] / 1024:,.0f}" for size in sizes]
        table.add_row(name, *(f"{median:,.0f}" for median in medians), *memory)
    return table


def _page(environment: Mapping[str, str], rounds: int) -> Table:
    airflow = Airflow(HOME / "airflow", environment)
    try:
        address = airflow.start()
        with airflow.client() as client:
            rest.wait_until(
                "the DAGs to be parsed",
                _PARSED_S,
                lambda: rest.call(client, "GET", "dags")["dags"] or None,
            )
        passwords = json.loads(configuration.passwords_file(HOME / "airflow").read_text("utf-8"))
        user = configuration.ADMIN
        with browser.logged_in(address, user, passwords[user]) as opened:
            paints = [_painted(opened, f"{address}{PREFIX}/#overview") for _ in range(rounds)]
    finally:
        airflow.stop()
    table = table_of(f"The page, opened {rounds} times", "median", "largest")
    for what, name in (
        ("first contentful paint, ms", "first"),
        ("rows of the overview shown, ms", "rows"),
        ("transferred, kB", "bytes"),
    ):
        values = [paint[name] / (1000 if name == "bytes" else 1) for paint in paints]
        table.add_row(what, f"{statistics.median(values):,.0f}", f"{max(values):,.0f}")
    return table


def _painted(opened: BrowserContext, url: str) -> dict[str, float]:
    page = opened.new_page()
    opened.new_cdp_session(page).send("Network.setCacheDisabled", {"cacheDisabled": True})
    page.goto(url)
    expect(page.get_by_role("row").filter(has_text="tag views")).to_be_visible()
    paint: dict[str, float] = page.evaluate(_PAINT)
    page.close()
    return paint


if __name__ == "__main__":
    main()
