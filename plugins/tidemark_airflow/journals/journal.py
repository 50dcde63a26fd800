"""A journal for its DAGs: names, schedule and connections.

The applications read the other settings themselves, when TIDEMARK_JOURNAL names the journal.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow.sdk import Asset, AssetAlias

DEFAULT = "default"
"""The name of the journal whose settings are the variables of the environment."""
VARIABLE = "TIDEMARK_JOURNAL"
CASSANDRA = "cassandra_default"
"""The connection of Cassandra."""
KAFKA = "kafka_default"
"""The connection of Kafka."""


def named(base: str, journal: str) -> str:
    """Return the name of a DAG, an asset or a pool of a journal, such as `tag_write.orders`."""
    return base if journal == DEFAULT else f"{base}.{journal}"


def environment(journal: str) -> dict[str, str]:
    """Return the variables with which an application works on a journal."""
    return {VARIABLE: journal}


@dataclass(frozen=True)
class AirflowJournal:
    """A journal.

    Attributes:
        name: its name.
        entry: its keys in the file; none for `default`.
    """

    name: str = DEFAULT
    entry: Mapping[str, Any] = field(default_factory=dict)

    def named(self, base: str) -> str:
        """Return the name of a DAG of this journal."""
        return named(base, self.name)

    def asset(self, asset: Any) -> Any:
        """Return the asset or alias of this journal that corresponds to one of `default`."""
        if self.name == DEFAULT:
            return asset
        name = self.named(asset.name)
        if isinstance(asset, AssetAlias):
            return AssetAlias(name, group=asset.group)
        return Asset(name=name, uri=self.named(asset.uri), group=asset.group, extra=asset.extra)

    def setting(self, variable: str, default: str) -> str:
        """Return a setting of the DAGs: a key of the entry, or for `default` a variable."""
        if self.name == DEFAULT:
            return os.environ.get(variable, default)
        key = variable.removeprefix("TIDEMARK_").replace("_", "-").lower()
        return str(self.entry.get(key, default))

    @property
    def bucket_size(self) -> str:
        """The bucket size in lower case."""
        return self.setting("TIDEMARK_BUCKET_SIZE", "Hour").lower()

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the operators of this journal's tasks."""
        return {"journal": self.name, "cassandra_conn_id": self._connection(CASSANDRA)}

    @property
    def kafka_connection(self) -> str:
        """The id of Kafka's connection."""
        return self._connection(KAFKA)

    @property
    def has_tag_views(self) -> bool:
        """Whether tag-write has anything to write: a journal in PostgreSQL has no tag views."""
        return not self.setting("TIDEMARK_R2DBC_CONNECTION", "")

    @property
    def replicates(self) -> bool:
        """Whether the entry has a keyspace for topics of kafka-journal."""
        return "kafka-journal-keyspace" in self.entry

    def _connection(self, default: str) -> str:
        key = default.replace("_default", "-connection")
        return str(self.entry.get(key, default))


OF_ENVIRONMENT = AirflowJournal()
"""The journal `default`."""
