"""cleanup in a real Cassandra: what it keeps, which deletes it makes, and the way back.

The cases of Pekko's CleanupSpec are in tests/interop, with real actors.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.docs_commands import ROOT, commands
from tests.integration.pekko_journals import delete_messages, write_as_pekko
from tests.integration.project.projections import LATEST
from tests.integration.support import Journal, Result
from tests.integration.tag_write.test_tag_write import message
from tidemark.cassandra.schema import SCHEMA_DIR, create_tables
from tidemark.ledger.locks import Locks

EVENTS = 12
PIDS = ("a|1", "a|2", "b|ü✓")
TABLES = ("messages", "metadata", "snapshots", "all_persistence_ids")
TAG_TABLES = ("tag_views", "tag_write_progress", "tag_scanning")
State = dict[str, list[Any]]


@pytest.fixture
def journal(make_journal: Callable[..., Journal], tmp_path: Path) -> Journal:
    """Return three ids of twelve events, four to a partition, with snapshots of 3, 6 and 9."""
    directory = tmp_path / "projections"
    directory.mkdir()
    journal = make_journal(
        TARGET_PARTITION_SIZE="4", PROJECTIONS_DIR=str(directory), SAVE_DIRS=str(tmp_path / "saves")
    )
    create_tables(journal.control, SCHEMA_DIR / "pekko_snapshot.cql", journal.keyspace)
    write_as_pekko(
        journal,
        [
            message(pid, nr, nr, {"red"} if nr % 2 else set(), partition_nr=partition_of(pid, nr))
            for pid in PIDS
            for nr in range(1, EVENTS + 1)
        ],
    )
    journal.insert("all_persistence_ids", [{"persistence_id": pid} for pid in PIDS])
    journal.insert(
        "snapshots",
        [
            {
                "persistence_id": pid,
                "sequence_nr": nr,
                "timestamp": nr * 1000,
                "ser_id": 20,
                "ser_manifest": "",
                "snapshot_data": f"{pid} {nr}".encode(),
            }
            for pid in PIDS
            for nr in (3, 6, 9)
        ],
    )
    return journal


def partition_of(pid: str, number: int) -> int:
    """Return an event's partition; of a|2, 3 to 6 are a write group, in the partition of 6."""
    return 1 if pid == "a|2" and number in (3, 4) else (number - 1) // 4


def clean_up(journal: Journal, *arguments: str, apply: bool = True) -> Result:
    return journal.run(
        "cleanup",
        *arguments,
        *(["--apply"] if apply else []),
        SNAPSHOT_KEYSPACE=journal.keyspace,
    )


def cleaned(journal: Journal, *arguments: str) -> dict[str, int]:
    result = clean_up(journal, *arguments)
    assert result.status == 0, result.stderr
    counts: dict[str, int] = result.report["counts"]
    return counts


def ids(pids: Iterable[str]) -> list[str]:
    return [word for pid in pids for word in ("--persistence-id", pid)]


def state(journal: Journal) -> State:
    return {name: journal.rows(name) for name in (*TABLES, *TAG_TABLES)}


def numbers(journal: Journal, name: str = "messages") -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in journal.rows(name):
        found.setdefault(row["persistence_id"], []).append(row["sequence_nr"])
    return {pid: sorted(its) for pid, its in found.items()}


def test_dry_run_counts_exactly_and_deletes_are_of_partitions_then_ranges(
    journal: Journal,
) -> None:
    """Partition 0 goes whole, of partition 1 a range; the group of a|2 lies in partition 1."""
    before = state(journal)
    arguments = ("events-to", "--to", "6", *ids(PIDS[:2]))
    planned = clean_up(journal, *arguments, apply=False)
    assert (planned.status, planned.report["state"]) == (0, "planned")
    assert state(journal) == before
    counts = cleaned(journal, *arguments)
    assert counts == planned.report["counts"]
    assert counts == {
        "events_deleted": 12,
        "persistence_ids": 2,
        "metadata_written": 2,
        "ids_kept": 0,
        "partitions_deleted": 2,
        "ranges_deleted": 2,
        "rows_deleted": 0,
    }
    left = list(range(7, EVENTS + 1))
    assert numbers(journal) == {"a|1": left, "a|2": left, "b|ü✓": list(range(1, EVENTS + 1))}
    assert {row["persistence_id"]: row["deleted_to"] for row in journal.rows("metadata")} == {
        "a|1": 6,
        "a|2": 6,
    }
    assert {name: state(journal)[name] for name in TAG_TABLES} == {
        name: before[name] for name in TAG_TABLES
    }
    again = clean_up(journal, *arguments)
    assert (again.status, again.report["state"]) == (0, "nothing-to-do")
    operations = sorted(row["operation"] for row in journal.own_rows("audit"))
    assert operations == ["events-to", "events-to", "events-to started"]


@pytest.mark.long
def test_an_event_that_is_needed_or_not_tagged_yet_stays(journal: Journal) -> None:
    """Of a|1, 9 has no tag row yet; a projection of messages, which never ran, needs everything."""
    behind = {"persistence_id": "a|1", "tag": "red", "sequence_nr": 8}
    journal.insert("tag_write_progress", [{**behind, "tag_pid_sequence_nr": 4}])
    result = clean_up(journal, "events-to", "--to", "12", *ids(PIDS[:2]))
    assert result.report["counts"]["ids_kept"] == 1
    assert "a|1 from sequence nr 9 on" in result.stdout
    assert "a|2: events up to 12 go, but its newest snapshot is of 9" in result.stdout
    assert numbers(journal) == {"a|1": [9, 10, 11, 12], "b|ü✓": list(range(1, EVENTS + 1))}

    directory = Path(journal.environment["TIDEMARK_PROJECTIONS_DIR"])
    (directory / "latest.sql").write_text(LATEST.replace("{keyspace}", journal.keyspace))
    before = state(journal)
    for command in (
        ("events-to", "--to", "12"),
        ("all-events", "--never-use-again"),
        ("all", "--never-use-again"),
    ):
        held = clean_up(journal, *command, *ids(["b|ü✓"]))
        assert (held.status, held.report["state"]) == (0, "nothing-to-do"), held.stdout
        assert "needed by latest, such as b|ü✓ from sequence nr 1 on" in held.stdout
    assert state(journal) == before


def test_deletes_that_died_are_finished_and_what_came_since_stays(journal: Journal) -> None:
    """Pekko writes metadata first; an event that is left behind that is finished by the policy."""
    journal.insert(
        "metadata",
        [
            {"persistence_id": "a|1", "deleted_to": 8},
            {"persistence_id": "a|2", "deleted_to": 5},
            {"persistence_id": "b|ü✓", "deleted_to": 12},
        ],
    )
    counts = cleaned(journal, "deleted-events", "--entity-type", "a")
    assert (counts["events_deleted"], counts["metadata_written"]) == (13, 0)
    assert (counts["partitions_deleted"], counts["ranges_deleted"]) == (3, 1)
    everything = list(range(1, EVENTS + 1))
    assert numbers(journal) == {
        "a|1": everything[8:],
        "a|2": everything[5:],
        "b|ü✓": everything,
    }
    # The last partition is not deleted as a whole: an actor may write into it at any moment.
    counts = cleaned(journal, "deleted-events")
    assert (counts["partitions_deleted"], counts["ranges_deleted"]) == (2, 1)
    assert "b|ü✓" not in numbers(journal)
    assert clean_up(journal, "deleted-events").report["state"] == "nothing-to-do"


@pytest.mark.long
def test_snapshots_of_all_ids_or_of_an_entity_type(journal: Journal) -> None:
    counts = cleaned(journal, "before-snapshot", "--keep", "1", "--entity-type", "b")
    assert counts == {
        "snapshots_deleted": 2,
        "partitions_deleted": 0,
        "ranges_deleted": 1,
        "rows_deleted": 0,
    }
    counts = cleaned(journal, "before-snapshot", "--keep", "2", "--all", "--events")
    assert (counts["snapshots_deleted"], counts["events_deleted"]) == (2, 6 + 6 + 9)
    assert numbers(journal, "snapshots") == {"a|1": [6, 9], "a|2": [6, 9], "b|ü✓": [9]}
    everything = list(range(1, EVENTS + 1))
    assert numbers(journal) == {
        "a|1": everything[6:],
        "a|2": everything[6:],
        "b|ü✓": everything[9:],
    }


def test_what_an_actor_deletes_meanwhile_is_not_taken_back(journal: Journal) -> None:
    """Between plan and write an actor has deleted further: its deleted_to is the later write."""
    from tidemark.purge.messages import store

    real = store.write_deleted_to

    def after_the_actor(*arguments: Any, **options: Any) -> None:
        delete_messages(journal, "a|1", to=10)
        real(*arguments, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store, "write_deleted_to", after_the_actor)
        cleaned(journal, "events-to", "--to", "4", *ids(["a|1"]))
    assert [row["deleted_to"] for row in journal.rows("metadata")] == [10]
    assert numbers(journal)["a|1"] == [11, 12]


@pytest.mark.long
def test_an_id_whose_front_is_lost_without_a_trace_is_found(journal: Journal) -> None:
    messages = f"{journal.keyspace}.messages"
    for partition in (0, 1, 2):
        journal.control.execute(
            f"DELETE FROM {messages} WHERE persistence_id = ? AND partition_nr = ?",
            ("a|1", partition),
        )
    far = message("a|1", 30, 1, set(), partition_nr=7)
    journal.insert("messages", [far])
    assert cleaned(journal, "all-events", *ids(["a|1"]))["events_deleted"] == 1
    assert [row["deleted_to"] for row in journal.rows("metadata")] == [30]


@pytest.mark.long
def test_the_docs_commands(journal: Journal) -> None:
    own = {"aircraft|N14228": "a|1"}
    page = ROOT / "docs" / "cleanup.md"
    for command in commands(page):
        _, *arguments = (own.get(word, word) for word in shlex.split(command))
        result = clean_up(journal, *arguments, apply=False)
        assert result.status == 0, (command, result.stderr)
    assert "a|1" in numbers(journal)


def test_what_cannot_be_meant_is_refused_in_one_line(journal: Journal) -> None:
    before = state(journal)
    for arguments, says in (
        (("events-to", "--to", "5"), "no persistence id is named"),
        (("all",), "no persistence id is named"),
        (("before-snapshot", "--keep", "1"), "say whose snapshots"),
        (("before-snapshot", "--keep", "1", "--all", "--keep-after", "soon"), "not an ISO 8601"),
        (("restore", "--from", "nowhere"), "no complete copy is there"),
    ):
        result = clean_up(journal, *arguments)
        assert result.status == 2
        [line] = result.error_lines
        assert says in line
    assert state(journal) == before


def test_directory_that_is_not_for_copies_is_neither_written_nor_read(
    journal: Journal, tmp_path: Path
) -> None:
    """The audit table has no row of it."""
    outside = tmp_path / "saves-evil"
    outside.mkdir()
    (tmp_path / "saves").mkdir()
    (tmp_path / "saves" / "link").symlink_to(outside)
    before, audit = state(journal), journal.own_rows("audit")
    for directory in (str(outside), "../saves-evil", "link", f"hdfs:{outside}"):
        for command in (("all-events", *ids(PIDS), "--save-to"), ("restore", "--from")):
            result = clean_up(journal, *command, directory)
            assert result.status == 2, (command, directory, result.stderr)
            [line] = result.error_lines
            assert f"is not in a directory for copies ({command[-1]}); name a directory" in line
    assert (state(journal), journal.own_rows("audit")) == (before, audit)
    assert [*outside.iterdir()] == []


@pytest.mark.long
def test_copy_that_names_another_directory_is_left_out(
    journal: Journal, spark: SparkSession, tmp_path: Path
) -> None:
    """The runs have an id as Airflow's are, and one that would lead out of the directory."""
    saves, outside = tmp_path / "saves", tmp_path / "outside"
    before = numbers(journal)
    for run_id, pid in (("cleanup/manual__2026-11-28T02:00+00:00/1", "a|1"), ("../x", "b|ü✓")):
        saving = ("--save-to", str(saves), "--run-id", run_id)
        cleaned(journal, "events-to", "--to", "2", *ids([pid]), *saving)
    names = ["_._x", "cleanup_manual__2026-11-28T02_00+00_00_1"]
    assert sorted(path.name for path in saves.iterdir()) == sorted(names)
    (saves / names[0]).rename(outside)
    about = spark.read.parquet(f"file://{outside}/about").withColumn("copy", F.lit("../outside"))
    about.write.parquet(f"file://{saves}/forged/about")

    result = clean_up(journal, "restore", "--from", str(saves))
    assert result.status == 0, result.stderr
    assert "the copy ../outside is left out" in result.stdout
    assert numbers(journal) == {**before, "b|ü✓": list(range(3, EVENTS + 1))}
    shutil.rmtree(saves / names[1])
    result = clean_up(journal, "restore", "--from", str(saves))
    assert result.status == 2
    assert "the copy ../outside is left out" in result.error_lines[0]


def test_locks_exclude_tag_write_and_other_deletes(journal: Journal) -> None:
    clean_up(journal, "events-to", "--to", "1", *ids(["a|1"]), apply=False)
    for resource in (
        f"tag_views/{journal.keyspace}/2024-03-01",
        f"messages/{journal.keyspace}",
        f"snapshots/{journal.keyspace}",
    ):
        other = Locks(
            journal.control,
            journal.own_keyspace,
            [resource],
            owner="another",
            run_id="another",
            ttl=60,
        )
        with other:
            result = clean_up(journal, "all", *ids(["a|1"]))
        assert result.status == 1
        assert "is held by another" in result.error_lines[0]
    assert numbers(journal)["a|1"] == list(range(1, EVENTS + 1))


@pytest.mark.long
@pytest.mark.parametrize(
    "commands",
    [
        [("all", "--never-use-again", *ids(PIDS[:2]))],
        pytest.param(
            [("before-snapshot", "--keep", "1", "--events", "--all")], marks=pytest.mark.long
        ),
        pytest.param(
            [
                ("events-to", "--to", "5", *ids(PIDS)),
                ("all-snapshots", *ids(PIDS[:1])),
                ("all-events", *ids(PIDS)),
            ],
            marks=pytest.mark.soak,
        ),
    ],
    ids=["all", "before-snapshot", "several"],
)
def test_what_was_saved_comes_back(
    journal: Journal, tmp_path: Path, commands: list[tuple[str, ...]]
) -> None:
    """All but tag views: rows, with what is left of their lifetime, and what metadata said."""
    journal.control.execute(
        f"UPDATE {journal.keyspace}.messages USING TTL 5000 SET event = ? WHERE persistence_id = ?"
        " AND partition_nr = 0 AND sequence_nr = 2 AND timestamp = ?",
        (b"short-lived", "a|1", message("a|1", 2, 2, set())["timestamp"]),
    )
    before = state(journal)
    saved = str(tmp_path / "saves" / "here")
    for command in commands:
        cleaned(journal, *command, "--save-to", saved)
    assert state(journal)["messages"] != before["messages"]
    planned = clean_up(journal, "restore", "--from", saved, apply=False)
    assert planned.status == 0, planned.stderr
    assert cleaned(journal, "restore", "--from", saved) == planned.report["counts"]
    after = state(journal)
    for name in ("messages", "snapshots", "all_persistence_ids"):
        assert after[name] == before[name], name
    assert not any(row["deleted_to"] for row in after["metadata"])
    assert clean_up(journal, "restore", "--from", saved).report["state"] == "nothing-to-do"
    [row] = journal.control.execute(
        f"SELECT TTL(event) AS ttl FROM {journal.keyspace}.messages WHERE persistence_id = ?"
        " AND partition_nr = 0 AND sequence_nr = 2",
        ("a|1",),
    )
    assert 0 < row["ttl"] <= 5000


@pytest.mark.long
def test_a_row_is_hidden_at_its_old_write_time(journal: Journal, tmp_path: Path) -> None:
    """Why a restore does not keep it: whatever is older than the delete stays deleted."""
    key = ("a|1", 0, 1, message("a|1", 1, 1, set())["timestamp"])
    where = "persistence_id = ? AND partition_nr = ? AND sequence_nr = ? AND timestamp = ?"
    written = f"SELECT WRITETIME(event) AS at FROM {journal.keyspace}.messages WHERE {where}"
    [before] = journal.control.execute(written, key)
    saved = str(tmp_path / "saves")
    cleaned(journal, "events-to", "--to", "5", *ids(["a|1"]), "--save-to", saved)
    journal.control.execute(
        f"UPDATE {journal.keyspace}.messages USING TIMESTAMP {before['at']} SET event = ?"
        f" WHERE {where}",
        (b"again", *key),
    )
    assert journal.control.execute(written, key) == []
    cleaned(journal, "restore", "--from", saved)
    [after] = journal.control.execute(written, key)
    assert after["at"] > before["at"]


def test_what_fits_comes_back_of_one_run_and_of_single_persistence_ids(
    journal: Journal, tmp_path: Path
) -> None:
    """After both deletes the actor of a|1 has deleted further; a|2 is in no copy."""
    two, saves = ("a|1", "b|ü✓"), str(tmp_path / "saves")
    for run_id, to in (("first", "2"), ("first-again", "4")):
        saving = ("--save-to", saves, "--run-id", run_id)
        cleaned(journal, "events-to", "--to", to, *ids(two), *saving)
    journal.insert("metadata", [{"persistence_id": "a|1", "deleted_to": 9}])
    before = numbers(journal)

    for options, says in (
        (("--run", "second"), "name one of first-again, first"),
        (ids(["b|ü✓", "a|2"]), "no copy has a|2 (--persistence-id)"),
    ):
        refused = clean_up(journal, "restore", "--from", saves, *options)
        assert refused.status == 2
        assert says in refused.error_lines[0]
    last = clean_up(journal, "restore", "--from", saves, "--run", "first-again")
    assert last.status == 3
    [line] = last.error_lines
    assert "not restored" in line
    assert "saved: a|1 (" in line
    counts = {"events_restored": 2, "snapshots_restored": 0, "metadata_restored": 1}
    assert last.report["counts"] == {**counts, "ids_not_restored": 1}
    assert numbers(journal) == {**before, "b|ü✓": list(range(3, EVENTS + 1))}
    deleted = {row["persistence_id"]: row["deleted_to"] for row in journal.rows("metadata")}
    assert deleted == {"a|1": 9, "b|ü✓": 2}

    rest = clean_up(journal, "restore", "--from", saves, *ids(["b|ü✓"]))
    assert rest.status == 0, rest.stderr
    assert numbers(journal) == {**before, "b|ü✓": list(range(1, EVENTS + 1))}


@pytest.mark.long
def test_snapshots_come_back_and_what_an_actor_has_deleted_since_stays_deleted(
    journal: Journal, tmp_path: Path
) -> None:
    """No copy has the events that it has deleted, so that they must not count as there."""
    saved, before = str(tmp_path / "saves"), numbers(journal, "snapshots")
    cleaned(journal, "before-snapshot", "--keep", "1", *ids(["a|1"]), "--save-to", saved)
    journal.insert("metadata", [{"persistence_id": "a|1", "deleted_to": 5}])
    assert cleaned(journal, "restore", "--from", saved)["snapshots_restored"] == 2
    assert numbers(journal, "snapshots") == before
    assert [row["deleted_to"] for row in journal.rows("metadata")] == [5]


@pytest.mark.long
def test_a_persistence_id_whose_journal_does_not_fit_its_copy_is_left_as_it_is(
    journal: Journal, tmp_path: Path
) -> None:
    saved = str(tmp_path / "saves")
    cleaned(journal, "all", "--never-use-again", *ids(["a|1"]), "--save-to", saved)
    anew = message("a|1", 1, 20, set())
    journal.insert("messages", [anew])
    before = state(journal)
    result = clean_up(journal, "restore", "--from", saved)
    assert result.status == 3
    assert "not restored" in result.error_lines[0]
    assert "saved: a|1 (" in result.error_lines[0]
    assert state(journal) == before
