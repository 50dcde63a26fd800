"""Applications by hand on a Spark cluster, whose workers have Spark and a bare Python only."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from embedded.spark.cluster import SparkCluster
from tests.cluster.accounts import WINDOW, events
from tests.cluster.read_models import read_models, with_workers
from tests.faults.killing import suspend_before, wake
from tests.faults.seams import Seam
from tests.integration.project.projections import Projections, event
from tests.integration.support import ROOT, Journal, wait_until
from tidemark_airflow.environment.drivers import report_of

LONG = pytest.mark.long
MAY_FAIL_BY = ("an executor of Spark has ended", "Cassandra failed a Spark job")


@LONG
def test_applications_by_hand_do_on_a_cluster_what_they_do_here(
    make_projections: Callable[[str], Projections],
    spark_cluster: SparkCluster,
    bare_python: Path,
    worker_packages: Path,
) -> None:
    here, there = make_projections("here"), make_projections("there")
    journal = with_workers(there, bare_python)
    settings = {"SPARK_MASTER": spark_cluster.url, "SPARK_WORKER_PACKAGES": str(worker_packages)}
    for application in ("tag_write", "validate", "project"):
        expected = here.journal.run(application, *WINDOW, PROJECTIONS_DIR=str(here.directory))
        assert expected.status == 0, expected.stderr
        result = journal.run_alone(application, *WINDOW, **settings)
        assert result.status == 0, result.stderr
        assert result.report["counts"] == expected.report["counts"], application
    # As Airflow asks where the driver has run elsewhere.
    report = report_of(result.report["run_id"], journal.environment, ROOT)
    assert report is not None
    assert report["counts"] == result.report["counts"]
    assert there.journal.tag_tables() == here.journal.tag_tables()
    assert read_models(there) == read_models(here)
    assert all(read_models(there).values())


@pytest.mark.long
def test_workers_without_packages_are_told_of_before_an_event_is_read(
    make_projections: Callable[[str], Projections], spark_cluster: SparkCluster, bare_python: Path
) -> None:
    there = make_projections("there")
    there.validated(0, 1, 2)
    there.insert_tag_views(*events())
    journal = with_workers(there, bare_python)
    result = journal.run_alone(
        "project", "--projection", "books", *WINDOW, SPARK_MASTER=spark_cluster.url
    )
    assert result.status == 2, result.stderr
    [line] = result.error_lines
    assert "the Python workers of Spark have no pandas; no pyarrow; no cbor2" in line
    assert "docs/cluster.md" in line
    assert there.journal.rows("books") == []


def test_an_executor_that_dies_changes_no_row(
    make_projections: Callable[[str], Projections], spark_cluster: SparkCluster, bare_python: Path
) -> None:
    here, there = make_projections("here"), make_projections("there")
    expected = here.journal.run("tag_write", *WINDOW)
    assert expected.status == 0, expected.stderr
    journal = with_workers(there, bare_python)
    script = ROOT / "spark_apps" / "tag_write.py"
    # Slow enough to be met in the middle of its rows.
    process = journal.start(script, *WINDOW, SPARK_MASTER=spark_cluster.url, WRITE_RATE="20")
    wait_until("the first rows", lambda: bool(journal.rows("tag_views")), deadline_s=300)
    assert spark_cluster.kill_executors("worker-1")
    ended_as_foreseen(process, process.communicate()[1])
    again = journal.run_alone("tag_write", *WINDOW, SPARK_MASTER=spark_cluster.url)
    assert again.status == 0, again.stderr
    assert there.journal.tag_tables() == here.journal.tag_tables()


def ended_as_foreseen(process: subprocess.Popen[str], stderr: str) -> None:
    """Require of a run whose executors were killed that it is done, or says what may help."""
    assert process.returncode in (0, 1), stderr
    if process.returncode:
        errors = [line for line in stderr.splitlines() if ": error: " in line]
        assert all(any(reason in line for reason in MAY_FAIL_BY) for line in errors), stderr
        assert errors


@LONG
@pytest.mark.parametrize(
    ("seam", "command"),
    [
        (Seam.PROGRESS_WRITTEN, ("tag_write", *WINDOW)),
        (Seam.PROGRESS_WRITTEN, ("reconcile", "rebuild", "--all", "--apply")),
        (Seam.OFFSETS_WRITTEN, ("project", *WINDOW)),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_progress_is_of_the_rows_that_were_written_though_executors_die_and_the_journal_grows(
    make_projections: Callable[[str], Projections],
    spark_cluster: SparkCluster,
    bare_python: Path,
    worker_packages: Path,
    seam: Seam,
    command: tuple[str, ...],
) -> None:
    """The executors die between the two writes; what they had read has more events by then."""
    here, there = make_projections("here"), make_projections("there")
    journal = with_workers(there, bare_python)
    settings = {"SPARK_MASTER": spark_cluster.url, "SPARK_WORKER_PACKAGES": str(worker_packages)}
    before = {"project": ("tag_write", "validate"), "reconcile": ("tag_write",)}
    for name in before.get(command[0], ()):
        result = there.journal.run(name, *WINDOW)
        assert result.status == 0, result.stderr
    process = suspend_before(journal, seam, *command, **settings)
    dead = sum(spark_cluster.kill_executors(name) for name in ("worker-1", "worker-2"))
    more = [event(f"account|{n}", 16, 2.995, "red", kind="in", amount=7) for n in range(12)]
    there.insert_messages(*more)
    ended_as_foreseen(process, wake(process))
    assert dead >= 2
    require_that_nothing_leads(there.journal)
    here.insert_messages(*more)
    for at in (here, there):
        for name in ("tag_write", "validate", "project"):
            # Its buckets were done when more came; a run of a later window would find it, too.
            forced = ("--force",) if at is there else ()
            directory = str(at.directory)
            result = at.journal.run(name, *WINDOW, *forced, PROJECTIONS_DIR=directory)
            assert result.status == 0, result.stderr
    assert there.journal.tag_tables() == here.journal.tag_tables()
    assert read_models(there) == read_models(here)


def require_that_nothing_leads(journal: Journal) -> None:
    """Require that progress and offsets are of rows that are there."""
    series = ("persistence_id", "tag", "tag_pid_sequence_nr")
    progress = {tuple(row[name] for name in series) for row in journal.rows("tag_write_progress")}
    written = ("persistence_id", "tag_name", "tag_pid_sequence_nr")
    assert progress <= {tuple(row[name] for name in written) for row in journal.rows("tag_views")}
    latest = {row["persistence_id"]: row["sequence_nr"] for row in journal.rows("latest")}
    consumed = {
        row["persistence_id"]: row["sequence_nr"]
        for row in journal.own_rows("projection_offset")
        if row["projection"] == "latest"
    }
    assert consumed.items() <= latest.items()


@pytest.mark.soak
@pytest.mark.parametrize("name", ["tag_write", "rebuild", "project"])
def test_executors_that_die_at_random_moments_change_no_row(
    make_projections: Callable[[str], Projections],
    spark_cluster: SparkCluster,
    bare_python: Path,
    worker_packages: Path,
    pytestconfig: pytest.Config,
    name: str,
) -> None:
    here, there = make_projections("here"), make_projections("there")
    journal = with_workers(there, bare_python)
    settings = {"SPARK_MASTER": spark_cluster.url}
    if name == "project":
        settings["SPARK_WORKER_PACKAGES"] = str(worker_packages)
    command, before = {
        "tag_write": (("tag_write", *WINDOW, "--force"), ()),
        "rebuild": (("reconcile", "rebuild", "--all", "--apply"), ("tag_write",)),
        "project": (("project", *WINDOW, "--force"), ("tag_write", "validate")),
    }[name]
    for at in (here, there):
        for application in before:
            result = at.journal.run(application, *WINDOW)
            assert result.status == 0, result.stderr
    dice, killed = Random(20241127), 0
    application, *arguments = command
    for _ in range(max(2, pytestconfig.getoption("kills") // 2)):
        script = ROOT / "spark_apps" / f"{application}.py"
        process = journal.start(script, *arguments, **settings)
        killed += kill_executors_of(process, spark_cluster, dice)
        ended_as_foreseen(process, process.communicate()[1])
    assert killed
    for at in (here, there):
        directory = str(at.directory)
        result = at.journal.run(application, *arguments, PROJECTIONS_DIR=directory)
        assert result.status == 0, result.stderr
    assert there.journal.tag_tables() == here.journal.tag_tables()
    assert read_models(there) == read_models(here)


def kill_executors_of(
    process: subprocess.Popen[str], spark_cluster: SparkCluster, dice: Random
) -> int:
    """Kill one worker's executors some time after they began, and return how many there were."""
    worker = dice.choice(("worker-1", "worker-2"))
    wait_until(
        "executors",
        lambda: spark_cluster.has_executors(worker) or process.poll() is not None,
        deadline_s=300,
    )
    # The moment of the kill is the test's input; nothing is waited for.
    threading.Event().wait(dice.uniform(0.0, 12.0))
    return spark_cluster.kill_executors(worker)
