"""Translation of the Python driver's exceptions into one-line errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    DriverException,
    FunctionFailure,
    InvalidRequest,
    OperationTimedOut,
    RequestExecutionException,
    Timeout,
    Unauthorized,
    Unavailable,
    UnresolvableContactPoints,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionException
from cassandra.protocol import ErrorMessage

from tidemark.cassandra import tls
from tidemark.errors import CassandraUnavailable, InvalidInput, StatementRefused, TidemarkError
from tidemark.settings import Settings

_LATE = "Cassandra did not answer in time"
_UNREADABLE_USERS = "Unable to perform authentication"


@dataclass(frozen=True)
class Failures:
    """The failures of one session.

    Attributes:
        hosts: contact points as in the settings, for messages.
        settings: the settings of the session.
    """

    hosts: str
    settings: Settings

    @contextmanager
    def in_one_line(self) -> Iterator[None]:
        """Translate the driver's errors in the block into what is wrong, where, and what to do.

        Raises:
            CassandraUnavailable: instead of any error of the driver after which a retry may help.
            StatementRefused: Cassandra rejects a statement.
            InvalidInput: Cassandra rejects the user or its statement; or one of the two sides
                rejects the certificate of the other, or TLS.
        """
        try:
            yield
        except NoHostAvailable as error:
            raise self._unavailable(error) from error
        except UnresolvableContactPoints as error:
            raise CassandraUnavailable(
                "no such host",
                where=self.hosts,
                do="check TIDEMARK_CASSANDRA_HOSTS and the name service",
            ) from error
        except (Unauthorized, AuthenticationFailed) as error:
            raise self._refused(error) from error
        except OperationTimedOut as error:
            raise CassandraUnavailable(_LATE, where=self.hosts, do="try again") from error
        except Timeout as error:
            raise CassandraUnavailable(
                f"{_LATE}: {error}", where=self.hosts, do="try again"
            ) from error
        except Unavailable as error:
            raise self._too_few_replicas(error) from error
        except (InvalidRequest, FunctionFailure) as error:
            raise StatementRefused(
                f"Cassandra refused a statement: {error}", where=self.hosts
            ) from error
        except ConnectionException as error:
            # The statement may have been executed or not.
            raise CassandraUnavailable(
                f"the connection was lost: {error}", where=self.hosts, do="try again"
            ) from error
        except (DriverException, RequestExecutionException, ErrorMessage) as error:
            # Errors of the server that the driver has no exception for are messages.
            raise CassandraUnavailable(
                f"Cassandra refused a statement: {error}", where=self.hosts
            ) from error

    @contextmanager
    def of_connecting(self) -> Iterator[None]:
        """Translate like `in_one_line`, and check whether TLS is why a node is unreachable."""
        try:
            with self.in_one_line():
                yield
        except CassandraUnavailable as failure:
            is_unreachable = isinstance(failure.__cause__, NoHostAvailable)
            if is_unreachable and (refusal := tls.probe(self.settings)):
                raise refusal from failure.__cause__
            raise

    def _unavailable(self, error: NoHostAvailable) -> TidemarkError:
        causes_by_node = error.errors if isinstance(error.errors, dict) else {}
        causes = list(causes_by_node.values())
        for node, cause in causes_by_node.items():
            if isinstance(cause, AuthenticationFailed | Unauthorized):
                return self._refused(cause)
            if isinstance(cause, Unavailable):
                return self._too_few_replicas(cause)
            if refusal := tls.refusal(str(cause), str(node), self.settings):
                return refusal
        detail = f": {causes[0]}" if causes else ""
        return CassandraUnavailable(
            f"cannot reach Cassandra{detail}",
            where=self.hosts,
            do="check TIDEMARK_CASSANDRA_HOSTS and that the server is up",
        )

    def _too_few_replicas(self, error: Unavailable) -> CassandraUnavailable:
        level = str(ConsistencyLevel.value_to_name.get(error.consistency, error.consistency))
        in_data_center = f" in data centre {self.settings.cassandra_local_dc}"
        is_local = level.startswith("LOCAL_") and self.settings.cassandra_local_dc
        return CassandraUnavailable(
            f"consistency level {level} needs {error.required_replicas} replicas"
            f"{in_data_center if is_local else ''}, {error.alive_replicas} are alive",
            where=self.hosts,
            do="start the missing nodes, or lower the replication factor of the keyspace"
            " (TIDEMARK_REPLICATION for Tidemark's own)",
        )

    def _refused(self, error: Exception) -> TidemarkError:
        do = "check TIDEMARK_CASSANDRA_USERNAME and TIDEMARK_CASSANDRA_PASSWORD"
        username = self.settings.cassandra_username
        if isinstance(error, Unauthorized):
            what = f"Cassandra does not permit this to user {username!r}: {error}"
            return InvalidInput(what, where=self.hosts, do=f"grant it, or {do}")
        user = f"user {username!r} with this password" if username else "no user"
        # Cassandra also fails to authenticate while it cannot read its own users.
        is_outage = _UNREADABLE_USERS in str(error)
        kind = CassandraUnavailable if is_outage else InvalidInput
        return kind(f"Cassandra refuses {user}", where=self.hosts, do=do)
