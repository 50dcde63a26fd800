"""What the applications are told when they run on the embedded servers."""

from __future__ import annotations

from embedded.cassandra.server import Endpoint
from embedded.paths import STATE
from embedded.postgres.server import PostgresEndpoint
from embedded.spark import environment as spark

JOURNAL_KEYSPACE = "pekko"
READ_MODEL_KEYSPACE = "flights"


def environment(
    endpoint: Endpoint, kafka: str | None = None, postgres: PostgresEndpoint | None = None
) -> dict[str, str]:
    """Return the variables of the applications for the embedded servers and the demo's journals.

    `kafka` is the address of Kafka if it runs, `postgres` that of PostgreSQL.

    Day buckets: a thousand flights a day is what Pekko's documentation recommends them for. The
    schedule is off: a journal of 2013 has nothing new each night.
    """
    return {
        **spark.environment(),
        **endpoint.environment(),
        "TIDEMARK_JOURNAL_KEYSPACE": JOURNAL_KEYSPACE,
        "TIDEMARK_KEYSPACE": "tidemark",
        "TIDEMARK_BUCKET_SIZE": "Day",
        "TIDEMARK_CADENCE": "off",
        "TIDEMARK_REPLICATE_MINUTES": "0",
        "TIDEMARK_DATA_DOCS_DIR": str(STATE / "data_docs"),
        **({"TIDEMARK_KAFKA_BOOTSTRAP_SERVERS": kafka} if kafka else {}),
        **(postgres.environment() if postgres else {}),
    }
