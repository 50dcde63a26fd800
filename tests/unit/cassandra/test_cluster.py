"""The levels of the Python driver's requests, and where they go."""

from __future__ import annotations

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT

from tidemark.cassandra import cluster
from tidemark.cassandra.cluster import EVERYWHERE, ONCE
from tidemark.settings import Settings
from tidemark.write_times import WriteTimes


def test_locks_are_of_all_data_centers_whatever_is_set() -> None:
    settings = Settings(
        cassandra_consistency="LOCAL_QUORUM",
        cassandra_serial_consistency="LOCAL_SERIAL",
        cassandra_local_dc="dc1",
    )
    made = cluster.cluster(settings, WriteTimes())
    profiles = made.profile_manager.profiles
    ledger, locks = profiles[ONCE], profiles[EVERYWHERE]
    made.shutdown()
    assert (ledger.consistency_level, ledger.serial_consistency_level) == (
        ConsistencyLevel.LOCAL_QUORUM,
        ConsistencyLevel.LOCAL_SERIAL,
    )
    assert (locks.consistency_level, locks.serial_consistency_level) == (
        ConsistencyLevel.QUORUM,
        ConsistencyLevel.SERIAL,
    )
    policies = [profiles[name].load_balancing_policy for name in (EXEC_PROFILE_DEFAULT, ONCE)]
    assert [policy._child_policy.local_dc for policy in policies] == ["dc1", "dc1"]
