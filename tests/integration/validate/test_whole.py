"""validate judges the journal as a whole: partitions, bucket size, snapshots, in no time bucket."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.support import Journal, Result
from tests.integration.validate.test_incremental import NEWS, days, validate
from tests.integration.validate.test_validate import DAYS, MESSAGES, delete, states
from tidemark.cassandra.schema import SCHEMA_DIR, create_tables, table
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET

__all__ = ["days"]

IDS = ("one", "two", "three", "four", "five", "six")


def found(journal: Journal) -> set[tuple[object, ...]]:
    """Return (check, persistence id, tag, expected) of all findings; none is in a time bucket."""
    stored = journal.own_rows("finding")
    assert {(row["time_bucket"], row["severity"]) for row in stored} <= {(NO_TIME_BUCKET, "warns")}
    names = ("check_name", "persistence_id", "tag", "expected")
    return {tuple(row[name] for name in names) for row in stored}


@pytest.fixture
def look(days: Journal) -> Callable[..., Result]:
    """Return validate over days since START, with a snapshot store in the journal's keyspace."""
    create_tables(days.control, SCHEMA_DIR / "pekko_snapshot.cql", days.keyspace)
    days.environment = {**days.environment, "TIDEMARK_SNAPSHOT_KEYSPACE": days.keyspace}

    def validated(first: int, end: int, *options: str) -> Result:
        result = validate(days, first, end, *options)
        assert result.status == 0, result.stderr
        return result

    return validated


@pytest.mark.long
def test_partitions_are_known_by_what_is_new_and_all_of_them_by_a_look_at_everything(
    days: Journal, look: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Five events of a byte.
    limit = "tidemark.validate.journal_wide.message_partitions.BYTES_ADVISED"
    monkeypatch.setattr(limit, 5)
    large = {("partition_too_large", name, "", None) for name in IDS}

    new = look(2, DAYS)

    assert NEWS in new.stdout
    assert new.report["counts"]["partition_too_large"] == len(IDS)
    assert found(days) == large
    assert states(days) == dict.fromkeys(range(3), "done")
    assert "warning: partition_too_large: five: 6 events (0.0 MB of payload, estimated)" in (
        new.stdout
    )

    # One event less, in a time bucket that has passed: what is new does not show it.
    delete(days, MESSAGES, persistence_id="one", partition_nr=0, sequence_nr=1)
    days.insert("metadata", [{"persistence_id": "one", "deleted_to": 1}])
    assert NEWS in look(DAYS, DAYS + 1).stdout
    assert found(days) == large
    look(DAYS, DAYS + 1, "--scope", "all")
    assert found(days) == large - {("partition_too_large", "one", "", None)}

    # A run over one persistence id replaces its own.
    monkeypatch.setattr(limit, 6)
    assert days.run("validate", "--persistence-id", "two").status == 0
    assert found(days) == {
        ("partition_too_large", name, "", None) for name in IDS if name not in ("one", "two")
    }


def test_lost_tails_by_snapshots_are_told_until_they_are_gone(
    days: Journal, look: Callable[..., Result]
) -> None:
    snapshots = [("one", 6), ("two", 9), ("gone", 4)]
    payload = {"timestamp": 1, "ser_id": 1, "ser_manifest": "", "snapshot_data": b"s"}
    days.insert(
        "snapshots",
        [{"persistence_id": name, "sequence_nr": n, **payload} for name, n in snapshots],
    )
    lost = {("snapshot_beyond_events", "two", "", 9), ("snapshot_beyond_events", "gone", "", 4)}

    told = look(2, DAYS, "--scope", "all")

    assert found(days) == lost
    assert "snapshot_beyond_events: two: a snapshot of sequence nr 9, the events end at 6" in (
        told.stdout
    )
    page = days.settings().data_docs_dir / told.report["details"]["data_docs"]
    assert "nothing is broken, 2 warnings" in page.read_text()
    # An id that only a snapshot knows can be asked for.
    days.control.execute(f"TRUNCATE {table(days.own_keyspace, 'finding')}")
    assert days.run("validate", "--persistence-id", "gone").status == 0
    assert found(days) == {("snapshot_beyond_events", "gone", "", 4)}

    days.control.execute(f"TRUNCATE {table(days.keyspace, 'snapshots')}")
    look(DAYS, DAYS + 1, "--scope", "all")
    assert found(days) == set()
