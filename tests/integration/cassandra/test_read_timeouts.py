"""A replica is late, so that a read times out at the server, which is up and answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from cassandra import ConsistencyLevel
from cassandra.cluster import ResponseFuture
from cassandra.protocol import ReadTimeoutErrorMessage

from tidemark.cassandra.control import Control
from tidemark.errors import CassandraUnavailable

READ = "SELECT release_version FROM system.local"


@contextmanager
def late(answers: int) -> Iterator[None]:
    """Let the server's next answers be that its replicas were late.

    One node cannot be made to say so: it reads its own data without asking anybody.
    """
    info = {
        "consistency": ConsistencyLevel.QUORUM,
        "required_responses": 2,
        "received_responses": 1,
        "data_retrieved": True,
    }
    received, left = ResponseFuture._set_result, list(range(answers))

    def set_result(
        future: ResponseFuture, host: object, connection: object, pool: object, response: object
    ) -> None:
        if left:
            left.pop()
            response = ReadTimeoutErrorMessage(0x1200, "Operation timed out", info)
        received(future, host, connection, pool, response)

    with patch.object(ResponseFuture, "_set_result", set_result):
        yield
    assert not left


@pytest.mark.parametrize("read", [Control.execute, Control.read_everywhere])
def test_a_read_that_times_out_once_is_asked_again(control: Control, read: object) -> None:
    [before] = read(control, READ)  # type: ignore[operator]
    with late(1):
        assert read(control, READ) == [before]  # type: ignore[operator]


def test_a_read_that_times_out_twice_ends_with_the_time_out_and_not_with_a_missing_node(
    control: Control,
) -> None:
    control.execute(READ)
    with late(2), pytest.raises(CassandraUnavailable) as refusal:
        control.execute(READ)
    assert str(refusal.value).startswith("Cassandra did not answer in time: ")
    assert "'required_responses': 2, 'received_responses': 1" in str(refusal.value)
    assert "; try again" in str(refusal.value)
