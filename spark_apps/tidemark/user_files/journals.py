"""The file of several journals: an entry for each journal other than `default`.

The variables of the environment are the journal `default`. An entry has settings by their names in
kebab case, and the schedule of its DAGs. `include/schemas/journals.schema.json` is made from these
models, for editors and for the DAGs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints
from pydantic.json_schema import SkipJsonSchema

from tidemark.errors import InvalidInput
from tidemark.installation import DEFAULT_JOURNAL, JOURNAL_VARIABLE, chosen_journal, users_files
from tidemark.setting_groups.kafka import Name
from tidemark.setting_groups.r2dbc import ConnectionName, PostgresName
from tidemark.user_files.form import HeaderModel, Text
from tidemark.user_files.header import Header, Node
from tidemark.user_files.yaml_text import read_yaml_file

FILE = "TIDEMARK_JOURNALS_FILE"
CONNECTION = frozenset(
    {"cassandra_hosts", "cassandra_username", "cassandra_local_dc", "kafka_bootstrap_servers"}
)
"""Settings that an entry may leave to the environment: they do not identify a journal."""
OF_AIRFLOW = frozenset(
    {
        *("cassandra_connection", "kafka_connection", "cadence", "chain", "scheduled_purge"),
        *("replicate_minutes", "event_groups_minutes", "observe_minutes", "weekly_check"),
    }
)
"""Keys that only the DAGs use."""
_KEYSPACES = {
    "journal-keyspace": "pekko",
    "keyspace": "tidemark",
    "snapshot-keyspace": "pekko_snapshot",
    "kafka-journal-keyspace": "journal",
}
"""The keyspaces that only one journal may have, with the defaults of the environment.

The DAGs have them of the schema, as `x-keyspaces`.
"""
_OWN_FILES = {
    "projections-dir": "sql/projections",
    "tagging-dir": "sql/tagging",
    "checks-dir": "sql/checks",
    "retention-file": "retention.yaml",
}
"""The files of a journal, and where they are in its directory."""
_EMPTY = ("the file has no journals", "add `journals:` and an entry")

_Optional = SkipJsonSchema[None]
_Minutes = Annotated[int, Field(ge=0, lt=60)]
_Seconds = Annotated[float, Field(ge=0)]
_WholeSeconds = Annotated[int, Field(ge=0)]
JournalName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,47}$")]


class JournalEntry(HeaderModel):
    """A journal: where it is, its files, and its schedule. The other settings are the defaults."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"not": {"required": ["r2dbc-connection"]}},
            "then": {"required": ["journal-keyspace"]},
            "x-keyspaces": {**_KEYSPACES},
        }
    )

    cassandra_connection: Text = Field(
        "cassandra_default", description="the id of Cassandra's connection in Airflow"
    )
    kafka_connection: Text = Field(
        "kafka_default", description="the id of Kafka's connection in Airflow"
    )
    cassandra_hosts: Text | _Optional = None
    cassandra_username: Text | _Optional = None
    cassandra_local_dc: Text | _Optional = None
    kafka_bootstrap_servers: Text | _Optional = None
    journal_keyspace: Name | _Optional = Field(
        None,
        description="the keyspace of `messages` and `tag_views`; only a journal in PostgreSQL has"
        " none",
        examples=["orders"],
    )
    keyspace: Name = Field(
        description="the keyspace of Tidemark's own tables for this journal",
        examples=["tidemark_orders"],
    )
    bucket_size: Literal["Minute", "Hour", "Day"] = Field(
        description="`events-by-tag.bucket-size`", examples=["Hour"]
    )
    journal_table: Name | _Optional = None
    metadata_table: Name | _Optional = None
    all_persistence_ids_table: Name | _Optional = None
    events_by_tag_table: Name | _Optional = None
    events_by_tag_first_time_bucket: Text | _Optional = None
    events_by_tag_eventual_consistency_delay: _Seconds | _Optional = None
    events_by_tag_time_to_live: _WholeSeconds | _Optional = None
    target_partition_size: Annotated[int, Field(gt=0)] | _Optional = None
    snapshot_keyspace: Name | _Optional = Field(None, description="without it that of the journal")
    snapshot_table: Name | _Optional = None
    pekko_projection_keyspace: Name | _Optional = None
    pekko_projection_table: Name | _Optional = None
    kafka_journal_keyspace: Name | _Optional = Field(
        None, description="without it that of the journal, and no DAGs that replicate"
    )
    kafka_journal_table: Name | _Optional = None
    kafka_metajournal_table: Name | _Optional = None
    kafka_pointer_table: Name | _Optional = None
    kafka_topic_prefix: Text | _Optional = None
    kafka_journal_segment_size: Annotated[int, Field(ge=2, lt=1 << 31)] | _Optional = None
    kafka_journal_zone: Text | _Optional = None
    kafka_journal_delay: _WholeSeconds | _Optional = None
    r2dbc_connection: Annotated[ConnectionName, Field(min_length=1)] | _Optional = Field(
        None, description="the connection to PostgreSQL of a journal of akka-persistence-r2dbc"
    )
    r2dbc_schema: PostgresName | _Optional = None
    r2dbc_journal_table: PostgresName | _Optional = None
    r2dbc_snapshot_table: PostgresName | _Optional = None
    r2dbc_data_partitions: Annotated[int, Field(ge=1, le=1024)] | _Optional = None
    r2dbc_offset_table: PostgresName | _Optional = None
    r2dbc_look_back: _WholeSeconds | _Optional = None
    r2dbc_delay: _Seconds | _Optional = None
    retention_days: Annotated[int, Field(ge=1)] | _Optional = None
    retention_file: Text | _Optional = None
    tagging_dir: Text | _Optional = None
    checks_dir: Text | _Optional = None
    projections_dir: Text | _Optional = None
    cadence: Literal["daily", "hourly", "five-minutes", "off"] = "daily"
    chain: Literal["three-dags", "one-dag"] = "three-dags"
    scheduled_purge: Literal["plan", "apply"] = "plan"
    replicate_minutes: _Minutes = 5
    event_groups_minutes: _Minutes = 0
    observe_minutes: _Minutes = 5
    weekly_check: Literal["on", "off"] = "on"

    @classmethod
    def required(cls, value: Mapping[str, Any]) -> set[str]:
        """Return the keys that an entry must have: one in Cassandra has a keyspace."""
        is_in_postgres = "r2dbc-connection" in value
        return super().required(value) | (set() if is_in_postgres else {"journal-keyspace"})


class Journals(HeaderModel):
    """The journals of an installation, by their names."""

    journals: dict[JournalName, JournalEntry] = Field(
        description="each has DAGs, assets and pools with its name", min_length=1
    )


def of_settings() -> frozenset[str]:
    """Return the settings that an entry decides, whether it has them or not."""
    return frozenset(JournalEntry.model_fields) - OF_AIRFLOW - CONNECTION


def names(file: Path) -> list[str]:
    """Return the names of the entries of a file, sound or not; none if there is no such file.

    Raises:
        DefinitionError: it is not YAML.
    """
    if not file.is_file():
        return []
    entries = read_yaml_file(file, _EMPTY).root.step("journals")
    return [*entries.value] if entries is not None and isinstance(entries.value, dict) else []


def chosen_values() -> dict[str, Any] | None:
    """Return the settings of the entry that TIDEMARK_JOURNAL names; None for `default`.

    Raises:
        InvalidInput: there is no such file or journal.
        DefinitionError: the entry cannot be used; the message has file, line, column and remedy.
    """
    read = _chosen()
    if read is None:
        return None
    file, name, entry = read
    values = entry.model_dump(exclude_none=True, exclude=set(OF_AIRFLOW))
    # A journal in PostgreSQL has no keyspace, but its rows in Tidemark's tables have a name.
    values.setdefault("journal_keyspace", entry.keyspace)
    for key in ("snapshot_keyspace", "kafka_journal_keyspace"):
        values.setdefault(key, values["journal_keyspace"])
    for key, path in _files(file, name, entry.model_dump(by_alias=True)).items():
        values[key.replace("-", "_")] = path
    return values


def scheduled(key: Literal["cadence", "chain"], default: str) -> str:
    """Return how the DAGs of the chosen journal are scheduled; errors are as of `chosen_values`."""
    read = _chosen()
    if read is None:
        return os.environ.get(f"TIDEMARK_{key.upper()}") or default
    return str(getattr(read[2], key))


def _chosen() -> tuple[Path, str, JournalEntry] | None:
    name = chosen_journal()
    if name == DEFAULT_JOURNAL:
        return None
    file = Path(os.environ.get(FILE) or users_files("journals.yaml"))
    if not file.is_file():
        raise InvalidInput(
            f"there is no such file, so no journal {name}",
            where=str(file),
            do=f"set {FILE} to the file of journals, or {JOURNAL_VARIABLE} to {DEFAULT_JOURNAL}",
        )
    header = read_yaml_file(file, _EMPTY)
    journals = header.node("journals")
    entries = journals.value if isinstance(journals.value, dict) else {}
    if name not in entries or "journals" not in header.root.keys:
        names = ", ".join([DEFAULT_JOURNAL, *entries])
        raise InvalidInput(
            f"there is no journal {name}",
            where=str(file),
            do=f"set {JOURNAL_VARIABLE} to one of {names}",
        )
    # Other entries may be wrong: each is read alone.
    entry = Header(file, entries[name]).checked(JournalEntry)
    _require_own(header, name, entries)
    return file, name, entry


def _require_own(header: Header, name: str, entries: Mapping[str, Node]) -> None:
    """Require that no earlier journal of the same connection has a keyspace of this journal.

    Locks, findings and event groups would otherwise be those of another journal, or two journals
    would write the same tables without a common lock.
    """
    for key, claim in _claims(header.file, name, entries[name].plain()):
        for other, values in _earlier(name, entries):
            if claim in {taken for _, taken in _claims(header.file, other, values)}:
                raise header.error(
                    f"the journal {other} has {claim[0]}, too",
                    f"give each journal its own {key}",
                    "journals",
                    name,
                    key,
                )


def _earlier(name: str, entries: Mapping[str, Node]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the journals before this one, as far as their entries are mappings."""
    environment = {
        key: os.environ.get(f"TIDEMARK_{key.replace('-', '_').upper()}") or default
        for key, default in _KEYSPACES.items()
    }
    directory = os.environ.get("TIDEMARK_PROJECTIONS_DIR") or users_files("sql/projections")
    yield DEFAULT_JOURNAL, {**environment, "projections-dir": directory}
    for other, node in entries.items():
        if other == name:
            return
        if isinstance(node.value, dict):
            yield other, node.plain()


def _claims(
    file: Path, name: str, values: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield what only one journal may have: the key, and the thing with its cluster."""
    cluster = (
        str(values.get("cassandra-connection") or "cassandra_default"),
        str(values.get("cassandra-hosts") or ""),
    )
    for key in _KEYSPACES:
        if key in values:
            yield key, (f"the keyspace {values[key]}", *cluster)
    directory = _files(file, name, values)["projections-dir"]
    yield "projections-dir", (f"the directory {directory}", *cluster)


def _files(file: Path, name: str, values: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files of a journal; paths begin at the directory of the file of journals."""
    directory = file.resolve().parent
    own = directory / "journals" / name
    return {
        key: directory / values[key] if values.get(key) else own / path
        for key, path in _OWN_FILES.items()
    }
