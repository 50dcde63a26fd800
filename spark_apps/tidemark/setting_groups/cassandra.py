"""The settings of the connection to Cassandra, a part of `tidemark.settings`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

_QUORUMS = ("QUORUM", "LOCAL_QUORUM", "EACH_QUORUM", "ALL")
_SERIAL = ("SERIAL", "LOCAL_SERIAL")


class CassandraSettings(BaseSettings):
    """The settings of Cassandra, for the Python driver and the Spark connector."""

    cassandra_hosts: str = Field(
        "127.0.0.1:9042", description="Contact points, `host:port,host:port`."
    )
    cassandra_username: str = Field("", description="User name; empty connects without one.")
    cassandra_password: SecretStr = Field(SecretStr(""), description="Password of that user.")
    cassandra_security_protocol: Literal["PLAINTEXT", "SSL"] = Field(
        "PLAINTEXT",
        description="SSL is TLS that verifies each node's certificate and host name.",
    )
    cassandra_ssl_truststore: Path | None = Field(
        None,
        description="PKCS12 store of the authorities that sign the nodes' certificates, at the same"
        " path on every machine of Spark; empty: the authorities that the machine and Java trust.",
    )
    cassandra_ssl_truststore_password: SecretStr = Field(
        SecretStr(""), description="Password of that store."
    )
    cassandra_ssl_keystore: Path | None = Field(
        None,
        description="PKCS12 store of the client certificate and its key, at the same path on every"
        " machine of Spark; empty: there is none.",
    )
    cassandra_ssl_keystore_password: SecretStr = Field(
        SecretStr(""), description="Password of that store."
    )
    cassandra_local_dc: str = Field(
        "",
        description="The data centre of the nodes to connect to; empty: that of the contact point"
        " that answers first.",
    )
    cassandra_consistency: str = Field(
        "QUORUM",
        description="Consistency level of reads and writes: QUORUM (Pekko's own), LOCAL_QUORUM,"
        " EACH_QUORUM or ALL.",
    )
    cassandra_serial_consistency: str = Field(
        "SERIAL",
        description="Serial consistency of the ledger's transactions: SERIAL, or LOCAL_SERIAL if"
        " all runs are in one data centre. Locks are always taken with SERIAL.",
    )
    cassandra_timeout: float = Field(
        20.0, gt=0, description="Seconds that a statement of the control plane may take."
    )
    cassandra_batch_size: int = Field(
        48 * 1024,
        ge=1024,
        description="Bytes in one batch, all rows of one partition; stay below the server's"
        " `batch_size_fail_threshold`, 50 KiB by default.",
    )

    @field_validator("cassandra_hosts")
    @classmethod
    def _is_host_list(cls, value: str) -> str:
        parse_hosts(value)
        return value

    @field_validator("cassandra_ssl_truststore", "cassandra_ssl_keystore", mode="before")
    @classmethod
    def _is_used(cls, value: object, info: ValidationInfo) -> object:
        if not value:
            return None
        if info.data.get("cassandra_security_protocol") == "PLAINTEXT":
            raise ValueError("is not used without TIDEMARK_CASSANDRA_SECURITY_PROTOCOL=SSL")
        return value

    @field_validator("cassandra_consistency")
    @classmethod
    def _is_quorum(cls, value: str) -> str:
        reason = (
            "with less, a run may miss the lock of another, or go on from an older state than was"
            " written"
        )
        return _level(value, _QUORUMS, reason)

    @field_validator("cassandra_serial_consistency")
    @classmethod
    def _is_serial(cls, value: str) -> str:
        reason = "with no other level do two runs see who of them was first"
        return _level(value, _SERIAL, reason)

    @property
    def contact_points(self) -> list[tuple[str, int]]:
        """Return the contact points as (host, port)."""
        return parse_hosts(self.cassandra_hosts)

    @property
    def is_cassandra_encrypted(self) -> bool:
        """Return whether connections to Cassandra use TLS."""
        return self.cassandra_security_protocol == "SSL"

    @property
    def cassandra_local_levels(self) -> list[str]:
        """Return the consistency levels of a single data centre."""
        levels = (self.cassandra_consistency, self.cassandra_serial_consistency)
        return [level for level in levels if level.startswith("LOCAL_")]


def _level(value: str, levels: Sequence[str], reason: str) -> str:
    level = value.upper()
    if level not in levels:
        raise ValueError(f"choose one of {', '.join(levels)}: {reason}")
    return level


def parse_hosts(text: str) -> list[tuple[str, int]]:
    """Parse `host:port,host:port` into (host, port); the default port is 9042.

    Raises:
        ValueError: an empty list, an empty host or a port outside 1..65535.
    """
    points = []
    for part in text.split(","):
        host, _, port = part.strip().rpartition(":") if ":" in part else (part.strip(), "", "9042")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError("expected host:port,host:port with ports from 1 to 65535")
        points.append((host, int(port)))
    return points
