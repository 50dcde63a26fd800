"""The settings of Kafka and of kafka-journal's tables, a part of `tidemark.settings`."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, SecretStr, WithJsonSchema, field_validator
from pydantic_settings import BaseSettings

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")


def _identifier(value: str) -> str:
    if not _IDENTIFIER.fullmatch(value):
        raise ValueError("not a name Cassandra accepts: letters, digits and _, at most 48")
    return value


Name = Annotated[
    str,
    AfterValidator(_identifier),
    WithJsonSchema({"type": "string", "pattern": f"^{_IDENTIFIER.pattern}$"}),
]
"""The name of a keyspace or table."""


class KafkaSettings(BaseSettings):
    """The settings of Kafka and of kafka-journal's tables."""

    kafka_journal_keyspace: Name = Field(
        "journal", description="kafka-journal's `keyspace.name`, of projections that read it."
    )
    kafka_journal_table: Name = Field("journal", description="kafka-journal's table of events.")
    kafka_metajournal_table: Name = Field(
        "metajournal", description="kafka-journal's table of heads, one for each journal."
    )
    kafka_pointer_table: Name = Field(
        "pointer2", description="kafka-journal's table of how far each partition is replicated."
    )
    kafka_bootstrap_servers: str = Field(
        "127.0.0.1:9092", description="Kafka's `bootstrap.servers`, `host:port,host:port`."
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="Kafka's `security.protocol`."
    )
    kafka_ssl_ca: str = Field(
        "",
        description="File with the certificates (PEM) against which Kafka's is checked, if the"
        " protocol is one of SSL; empty: those that the machine and its Java trust. Spark's workers"
        " need it, too.",
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "SCRAM-SHA-512", description="Kafka's `sasl.mechanism`, if the protocol is one of SASL."
    )
    kafka_username: str = Field("", description="User name for SASL.")
    kafka_password: SecretStr = Field(SecretStr(""), description="Password of that user.")
    kafka_timeout: float = Field(
        20.0, gt=0, description="Seconds that a question to Kafka about its topics may take."
    )
    kafka_topic_prefix: str = Field(
        "journal",
        description="`replicate` takes the topics whose names begin with it: kafka-journal's"
        " `topic-prefixes`.",
    )
    kafka_journal_segment_size: int = Field(
        10_000,
        ge=2,
        lt=1 << 31,
        description="kafka-journal's `segment-size`, of journals that begin now: the events in a"
        " partition of `journal`. Others keep their own.",
    )
    kafka_journal_zone: str = Field(
        "UTC",
        description="Time zone of the dates on which journals expire, such as `Europe/Berlin`;"
        " kafka-journal's replicator takes that of its machine.",
    )
    kafka_journal_poison: Literal["hold", "stop", "skip"] = Field(
        "hold",
        description="What `replicate` does at a record that cannot be read: `hold` it and all later"
        " records of its key, `stop` its topic partition as kafka-journal does, or `skip` it.",
    )
    replicate_max_records: int = Field(
        1_000_000,
        ge=1,
        description="Records that `replicate` reads in one batch, over all topic partitions.",
    )
    kafka_journal_delay: int = Field(
        300,
        ge=0,
        description="Seconds after its end that projections of kafka-journal leave a time bucket"
        " alone, since the replicator may still write into it. Where `replicate` is the replicator,"
        " its progress says when they are complete.",
    )

    @field_validator("kafka_journal_zone")
    @classmethod
    def _is_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("not a time zone such as UTC or Europe/Berlin") from None
        return value
