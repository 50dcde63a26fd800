"""Each application killed with SIGKILL after each kind of write, then run again.

The tables must be byte-equal to those of a journal in which nothing was disturbed.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.sample import sampled
from tests.integration.flights import CHAIN, WINDOW, FlightsJournal
from tests.integration.support import ROOT, Journal, wait_until

CRASH = Path(__file__).parent / "crash.py"
FLIGHTS = 150
FLIGHTS_OF_TWO_DAYS = 900
EXAMPLES = {"fold": "aircraft_use", "append": "flight_log", "export": "flights_lake"}
"""The example of each mode."""
BOUNDARIES = {
    "tag_write": [
        "tidemark.journal.bucket_size:record_bucket_size",
        "tidemark.tagging.store:write_tag_views",
        "tidemark.tagging.store:write_progress",
        "tidemark.tagging.store:write_scanning",
        "tidemark.tagging.store:write_tails",
    ],
    "validate": [
        "tidemark.continuity.store:delete_older",
    ],
    "project": [
        "tidemark.projection.offset_store.made_from:note",
        "tidemark.projection.writing.tables:write_bucket_rows",
        "tidemark.projection.writing.tables:delete_older_rows",
        "tidemark.projection.writing.tables:write_newest",
        "tidemark.projection.offset_store.consumption:write_offsets",
        "tidemark.projection.offset_store.offsets:OffsetStore.advance_cursors",
        "tidemark.projection.offset_store.missing_numbers:replace",
    ],
    "purge": [
        "tidemark.journal.tag_views:delete_partitions",
    ],
}
CASES = sampled(
    [(application, where) for application, places in BOUNDARIES.items() for where in places],
    {
        ("tag_write", "tidemark.tagging.store:write_tag_views"),
        ("tag_write", "tidemark.tagging.store:write_scanning"),
        ("project", "tidemark.projection.offset_store.consumption:write_offsets"),
        ("purge", "tidemark.journal.tag_views:delete_partitions"),
    },
)


def options(application: str) -> tuple[str, ...]:
    return (*WINDOW, "--apply") if application == "purge" else WINDOW


@pytest.fixture(scope="module")
def undisturbed(
    make_journals: Callable[..., Journal], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, list[Any]]]:
    """All tables after each application, in a journal in which nothing was disturbed."""
    directory = tmp_path_factory.mktemp("undisturbed") / "projections"
    reference = FlightsJournal.create(make_journals, directory, FLIGHTS)
    states = {}
    for application in (*CHAIN, "purge"):
        result = reference.journal.run(application, *options(application))
        assert result.status == 0, result.stderr
        states[application] = reference.everything()
    return states


@pytest.mark.parametrize(("application", "boundary"), CASES)
def test_killed_after_a_write_and_run_again(
    make_journal: Callable[..., Journal],
    undisturbed: dict[str, dict[str, list[Any]]],
    tmp_path: Path,
    application: str,
    boundary: str,
) -> None:
    killed = FlightsJournal.create(make_journal, tmp_path / "p", FLIGHTS, LOCK_TTL="10")
    chain = [*CHAIN, "purge"]
    killed.run_chain(*chain[: chain.index(application)])

    script = str(ROOT / "spark_apps" / f"{application}.py")
    process = killed.journal.start(CRASH, boundary, script, *options(application))
    _, stderr = process.communicate()
    assert process.returncode == -signal.SIGKILL, stderr
    pieces = killed.journal.own_rows("piece")
    assert "running" in {row["state"] for row in pieces}
    wait_for_locks(killed.journal)

    again = killed.journal.run(application, *options(application))
    assert again.status == 0, again.stderr
    assert killed.everything() == undisturbed[application]
    assert {row["state"] for row in killed.journal.own_rows("piece")} == {"done"}


@pytest.mark.parametrize(
    ("mode", "boundary"),
    sampled(
        [
            ("fold", "tidemark.projection.writing.tables:write_newest"),
            ("fold", "tidemark.projection.offset_store.consumption:write_offsets"),
            ("fold", "tidemark.projection.offset_store.offsets:OffsetStore.advance_cursors"),
            ("append", "tidemark.projection.writing.tables:write_events"),
            ("export", "tidemark.projection.writing.export_files:write_batch"),
            ("export", "tidemark.projection.writing.export_files:replace_bucket"),
            ("export", "tidemark.projection.writing.export_files:remove_batches"),
        ],
        {("fold", "tidemark.projection.writing.tables:write_newest")},
    ),
)
def test_an_example_killed_after_a_write_and_run_again(
    make_journal: Callable[..., Journal], tmp_path: Path, mode: str, boundary: str
) -> None:
    states = []
    options = (*WINDOW, "--force", "--projection", EXAMPLES[mode])
    for name in ("undisturbed", "killed"):
        loaded = FlightsJournal.create(
            make_journal, tmp_path / name, FLIGHTS_OF_TWO_DAYS, "examples", LOCK_TTL="10"
        )
        if name == "killed":
            script = str(ROOT / "spark_apps" / "project.py")
            process = loaded.journal.start(CRASH, boundary, script, *options)
            _, stderr = process.communicate()
            assert process.returncode == -signal.SIGKILL, stderr
            wait_for_locks(loaded.journal)
        result = loaded.journal.run("project", *options)
        assert result.status == 0, result.stderr
        states.append((loaded.everything(), exported(tmp_path / name / "export")))
    assert states[0] == states[1]
    tables, files = states[0]
    assert len(files) > 1 if mode == "export" else tables[EXAMPLES[mode]]


def exported(directory: Path) -> dict[str, bytes]:
    """Every file by its directory: its own name holds the journal's, which differs."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    content = {str(path.parent.relative_to(directory)): path.read_bytes() for path in files}
    assert len(content) == len(files)
    return content


@pytest.mark.soak
@pytest.mark.parametrize(
    "boundary", ["tidemark.continuity.store:write_findings", "tidemark.continuity.tails:write"]
)
def test_validate_killed_after_a_write_and_run_again(
    make_journal: Callable[..., Journal], tmp_path: Path, boundary: str
) -> None:
    """Findings are only written where there are some: a tag row is lost in both journals."""
    tables = []
    for name in ("undisturbed", "killed"):
        damaged = FlightsJournal.create(make_journal, tmp_path / name, FLIGHTS, LOCK_TTL="10")
        damaged.run_chain("tag_write")
        # Tails are written where somebody will ask for them.
        damaged.journal.index_timestamps()
        lose_a_tag_row(damaged.journal)
        if name == "killed":
            script = str(ROOT / "spark_apps" / "validate.py")
            process = damaged.journal.start(CRASH, boundary, script, *WINDOW)
            _, stderr = process.communicate()
            assert process.returncode == -signal.SIGKILL, stderr
            wait_for_locks(damaged.journal)
        assert damaged.journal.run("validate", *WINDOW).status == 3
        tables.append(damaged.everything())
    assert tables[0] == tables[1]
    assert tables[0]["finding"]


def wait_for_locks(journal: Journal) -> None:
    """A dead run's locks expire by themselves."""
    wait_until("the dead run's locks to expire", lambda: not journal.own_rows("lock"))


def lose_a_tag_row(journal: Journal) -> None:
    """Delete the same row in every journal of the same events."""
    key = ("tag_name", "timebucket", "timestamp", "persistence_id", "tag_pid_sequence_nr")
    row = min(
        (row for row in journal.rows("tag_views") if row["tag_pid_sequence_nr"] == 2),
        key=lambda row: (row["tag_name"], row["persistence_id"]),
    )
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.tag_views WHERE "
        + " AND ".join(f"{name} = ?" for name in key),
        [row[name] for name in key],
    )
