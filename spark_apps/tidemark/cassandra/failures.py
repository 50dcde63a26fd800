"""Translation of the Python driver's exceptions into one-line errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    DriverException,
    OperationTimedOut,
    RequestExecutionException,
    Unauthorized,
    Unavailable,
    UnresolvableContactPoints,
)
from cassandra.cluster import NoHostAvailable

from tidemark.errors import CassandraUnavailable, InvalidInput, TidemarkError

_UNREADABLE_USERS = "Unable to perform authentication"


@dataclass(frozen=True)
class Failures:
    """The failures of one session.

    Attributes:
        hosts: contact points, as in the settings.
        username: name of the Cassandra user; empty without a login.
    """

    hosts: str
    username: str

    @contextmanager
    def in_one_line(self) -> Iterator[None]:
        """Translate the driver's errors in the block into what is wrong, where, and what to do.

        Raises:
            CassandraUnavailable: instead of any error of the driver that another try may mend.
            InvalidInput: Cassandra refuses the user, or does not permit the statement to it.
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
            raise CassandraUnavailable(
                "Cassandra did not answer in time", where=self.hosts, do="try again"
            ) from error
        except Unavailable as error:
            raise self._too_few_replicas(error) from error
        except (DriverException, RequestExecutionException) as error:
            raise CassandraUnavailable(
                f"Cassandra refused a statement: {error}", where=self.hosts
            ) from error

    def _unavailable(self, error: NoHostAvailable) -> TidemarkError:
        causes = list(error.errors.values()) if isinstance(error.errors, dict) else []
        for cause in causes:
            if isinstance(cause, AuthenticationFailed | Unauthorized):
                return self._refused(cause)
            if isinstance(cause, Unavailable):
                return self._too_few_replicas(cause)
        detail = f": {causes[0]}" if causes else ""
        return CassandraUnavailable(
            f"cannot reach Cassandra{detail}",
            where=self.hosts,
            do="check TIDEMARK_CASSANDRA_HOSTS and that the server is up",
        )

    def _too_few_replicas(self, error: Unavailable) -> CassandraUnavailable:
        level = ConsistencyLevel.value_to_name.get(error.consistency, error.consistency)
        return CassandraUnavailable(
            f"consistency level {level} needs {error.required_replicas} replicas,"
            f" {error.alive_replicas} are alive",
            where=self.hosts,
            do="start the missing nodes, or lower the replication factor of the keyspace"
            " (TIDEMARK_REPLICATION for Tidemark's own)",
        )

    def _refused(self, error: Exception) -> TidemarkError:
        do = "check TIDEMARK_CASSANDRA_USERNAME and TIDEMARK_CASSANDRA_PASSWORD"
        if isinstance(error, Unauthorized):
            what = f"Cassandra does not permit this to user {self.username!r}: {error}"
            return InvalidInput(what, where=self.hosts, do=f"grant it, or {do}")
        user = f"user {self.username!r} with this password" if self.username else "no user"
        # Cassandra also fails to authenticate while it cannot read its own users.
        is_outage = _UNREADABLE_USERS in str(error)
        kind = CassandraUnavailable if is_outage else InvalidInput
        return kind(f"Cassandra refuses {user}", where=self.hosts, do=do)
