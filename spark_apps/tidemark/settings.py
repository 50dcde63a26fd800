"""All settings, read once from the environment and typed.

Every name here is an environment variable with the prefix ``TIDEMARK_``:
``cassandra_hosts`` is ``TIDEMARK_CASSANDRA_HOSTS``. docs/settings.md lists them all.
"""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from tidemark import clock
from tidemark.errors import InvalidInput
from tidemark.installation import DEFAULT_JOURNAL, HOME, chosen_journal, users_files
from tidemark.partitioning.keys import BucketSize, time_bucket
from tidemark.setting_groups.cassandra import CassandraSettings
from tidemark.setting_groups.event_groups import EventGroupSettings
from tidemark.setting_groups.kafka import Name
from tidemark.setting_groups.r2dbc import R2dbcSettings
from tidemark.text import DURATION, seconds_of
from tidemark.user_files import journals
from tidemark.window import parse_first_time_bucket

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_LAST_EXPIRY = datetime(2038, 1, 19, tzinfo=UTC)
_PLAIN = {
    "int_parsing": "not a whole number",
    "float_parsing": "not a number",
    "greater_than_equal": "less than {ge}",
    "greater_than": "not more than {gt}",
    "literal_error": "choose one of {expected}",
}
"""Pydantic's types of errors in plain words."""


def _duration(value: str) -> str:
    if value and not re.fullmatch(DURATION, value):
        raise ValueError("not a duration such as `2 h`: a number with s, m, h or d")
    return value


Promise = Annotated[str, AfterValidator(_duration)]
"""A duration within which something is promised; empty without a promise."""


class _OfJournal(PydanticBaseSettingsSource):
    """The settings of the journal that is chosen; of `default` only the name.

    What an entry decides is never taken from the environment, whose variables are those of another
    journal: without a value in the entry it is the default.
    """

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[object, str, bool]:
        """Return nothing: `__call__` returns all settings of the journal together."""
        return None, field_name, False

    def __call__(self) -> dict[str, object]:
        """Return the settings by name."""
        chosen: dict[str, object] = {"journal": chosen_journal()}
        values = journals.chosen_values()
        if values is None:
            return chosen
        fields = self.settings_cls.model_fields
        defaults = {name: fields[name].default for name in journals.of_settings()}
        return {**chosen, **defaults, **values}


class Settings(CassandraSettings, EventGroupSettings, R2dbcSettings):
    """The settings of an application, in addition to its command line."""

    model_config = SettingsConfigDict(env_prefix="TIDEMARK_", frozen=True, extra="forbid")

    journal: str = Field(
        DEFAULT_JOURNAL,
        description="The journal of a run: `default` has the settings of the environment, any other"
        " is an entry of the file of journals ([journals](journals.md)).",
    )
    journals_file: Path = Field(
        users_files("journals.yaml"), description="That file; it is needed for such journals only."
    )
    secrets_dir: Path | None = Field(
        None,
        description="Directory with a file for each secret, named as its variable, such as"
        " `TIDEMARK_CASSANDRA_PASSWORD`; a variable that is set comes before its file.",
    )
    write_rate: int = Field(
        0,
        ge=0,
        description="The most rows a second that a run writes or deletes, whatever the number of"
        " cores; a delete is one row, however much it covers. 0 is no limit.",
    )
    journal_keyspace: Name = Field(
        "pekko", description="The keyspace of `messages` and `tag_views`."
    )
    journal_table: Name = Field("messages", description="`journal.table`.")
    metadata_table: Name = Field("metadata", description="`journal.metadata-table`.")
    all_persistence_ids_table: Name = Field(
        "all_persistence_ids", description="`journal.all-persistence-ids-table`."
    )
    snapshot_keyspace: Name = Field(
        "pekko_snapshot",
        description="`snapshot.keyspace`, of projections that start from snapshots.",
    )
    snapshot_table: Name = Field("snapshots", description="`snapshot.table`.")
    keyspace: Name = Field("tidemark", description="The keyspace of Tidemark's own tables.")
    replication: Annotated[dict[str, str], NoDecode] = Field(
        {"class": "SimpleStrategy", "replication_factor": "1"},
        description="Replication of Tidemark's own keyspace when it is first made, as JSON.",
    )
    bucket_size: Annotated[BucketSize, NoDecode] = Field(
        BucketSize.HOUR,
        description="Minute, Hour or Day: `events-by-tag.bucket-size`.",
    )
    events_by_tag_table: Name = Field("tag_views", description="`events-by-tag.table`.")
    events_by_tag_first_time_bucket: str = Field(
        "20151120T00:00",
        description="`events-by-tag.first-time-bucket`, UTC: where readers without an offset"
        " begin; rows before it are written, and counted, but such readers never see them.",
    )
    events_by_tag_eventual_consistency_delay: float = Field(
        5.0,
        ge=0,
        description="`events-by-tag.eventual-consistency-delay` in seconds: younger events are"
        " left alone.",
    )
    events_by_tag_max_message_batch_size: int = Field(
        150,
        ge=1,
        description="`events-by-tag.max-message-batch-size`: rows in one batch of deletes; writes"
        " are bounded by bytes.",
    )
    events_by_tag_time_to_live: int = Field(
        0,
        ge=0,
        description="Seconds that a row of the tag views lives, counted from the write; 0 leaves"
        " it to the table's default, where Pekko keeps `events-by-tag.time-to-live`.",
    )
    target_partition_size: int = Field(
        500_000, gt=0, description="`journal.target-partition-size`."
    )
    tag_write_look_back: int = Field(
        86_400,
        ge=0,
        description="Seconds before its window in which tag-write searches for late events by the"
        " index on `messages(timestamp)`.",
    )
    catch_up_buckets: int = Field(
        10_000,
        ge=1,
        description="Maximum number of time buckets that a run of `tag_write`, `validate` or of a"
        " projection processes: first those with the fewest attempts, then the oldest; the next"
        " runs process the others.",
    )
    project_look_back: int = Field(
        1,
        ge=0,
        description="Number of time buckets before each planned time bucket in which projections by"
        " tags search for late events; they find later events by the gaps in their numbers.",
    )
    pekko_projection_keyspace: Name = Field(
        "pekko_projection",
        description="`pekko.projection.cassandra.offset-store.keyspace`, read if there is one.",
    )
    pekko_projection_table: Name = Field(
        "offset_store", description="`pekko.projection.cassandra.offset-store.table`."
    )
    project_max_rows: int = Field(
        5_000_000,
        ge=1,
        description="Rows of its source that a projection reads in one batch. Its time buckets are"
        " processed in batches, oldest first; a time bucket with more rows is a separate batch.",
    )
    project_max_bytes: int = Field(
        1 << 30,
        ge=1,
        description="Bytes of payload that a projection reads in one batch.",
    )
    lock_ttl: int = Field(
        60,
        ge=5,
        description="Seconds after which the locks of a dead run expire. Airflow's workers need"
        " it too: a failed run is tried again 15 s later than that.",
    )
    keep_reports_days: int = Field(
        365,
        ge=0,
        le=3650,
        description="TTL in days of reports of runs, and of records that were rejected as event"
        " groups; 0 keeps them permanently. Applies to new rows.",
    )
    fresh_tag_write: Promise = Field(
        "",
        description="Promise of `tag_write`, such as `3 h`: older time buckets are done. `observe`"
        " raises an alarm if the promise is broken. Empty: no promise.",
    )
    fresh_validate: Promise = Field("", description="Likewise the promise of `validate`.")
    fresh_replicate: Promise = Field(
        "",
        description="Likewise the promise of `replicate`, such as `20 m`: older records are"
        " replicated.",
    )
    retention_days: int = Field(
        30,
        ge=1,
        description="Tag-view buckets younger than this are not purged; a shorter retention is"
        " rejected without --below-retention.",
    )
    retention_file: Path = Field(
        users_files("retention.yaml"),
        description="The file of purge's policies, see docs/retention.md.",
    )
    tagging_dir: Path = Field(users_files("sql/tagging"), description="The files of the tag rules.")
    checks_dir: Path = Field(users_files("sql/checks"), description="Your own checks of validate.")
    projections_dir: Path = Field(
        users_files("sql/projections"), description="The projection files."
    )
    export_dir: str | Path = Field(
        HOME / ".tidemark" / "export",
        description="The directory of the relative targets of mode `export`, or its URI; also the"
        " directory of the Iceberg tables, without `TIDEMARK_ICEBERG_CATALOG`.",
    )
    iceberg_catalog: str = Field(
        "",
        pattern="^([A-Za-z][A-Za-z0-9_]{0,47})?$",
        description="The catalog of the Iceberg tables of mode `export`, by its name in Spark's"
        " configuration (`spark.sql.catalog.<name>`); empty: a file catalog in"
        " `TIDEMARK_EXPORT_DIR`.",
    )
    save_dirs: str | Path = Field(
        HOME / ".tidemark" / "saved",
        description="Directories, or URIs of them, separated by commas: `--save-to` of `cleanup`"
        " and `purge`, and `--from` of `cleanup restore`, name one of them or one below. A relative"
        " one is below the first.",
    )
    purge_save_to: str = Field(
        "",
        description="The directory in which `purge` saves rows before it deletes them, if"
        " `--save-to`, or the form's field, is empty. Empty: they are not saved.",
    )
    data_docs_dir: Path = Field(
        HOME / ".tidemark" / "data_docs", description="Where validate builds Data Docs."
    )
    spark_master: str = Field(
        "local[*]", description="Used when an application runs outside spark-submit."
    )
    spark_ui: Literal["on", "off"] = Field(
        "off",
        description="Spark's UI while an application runs, from port 4040 on, without a login; its"
        " links to kill jobs are off. spark-submit's own `spark.ui.enabled` and"
        " `spark.ui.killEnabled` come first.",
    )
    spark_driver_memory: str = Field(
        "2g", description="Heap of the driver outside spark-submit, as Spark writes sizes."
    )
    spark_worker_packages: Path | None = Field(
        None,
        description="Archive of the packages for Spark's Python workers, as `make worker-packages`"
        " makes it, where the workers' Python has none; not read with a master `local`.",
    )
    spark_jars: str = Field(
        "",
        description="Comma-separated jars of the Cassandra connector, and of spark-avro if a"
        " decoder is `avro`; empty: the fetched jars.",
    )
    spark_kafka_jars: str = Field(
        "",
        description="Comma-separated jars of Spark's Kafka source, of `replicate` and `purge`;"
        " empty: the fetched jars.",
    )
    spark_iceberg_jars: str = Field(
        "",
        description="Comma-separated files of Iceberg's runtime for Spark, which runs load when"
        " they use an Iceberg table, unless Spark has it; empty: the fetched jar.",
    )

    spark_postgres_jars: str = Field(
        "",
        description="Comma-separated jars of PostgreSQL's JDBC driver; empty: the fetched jars.",
    )

    @field_validator("events_by_tag_first_time_bucket")
    @classmethod
    def _is_first_time_bucket(cls, value: str) -> str:
        parse_first_time_bucket(value)
        return value

    @field_validator("replication", mode="before")
    @classmethod
    def _from_json(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            parsed = json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(f"not JSON: {error}") from None
        if not isinstance(parsed, dict):
            raise ValueError('not a JSON object such as {"class": "SimpleStrategy", ...}')
        return {key: str(part) for key, part in parsed.items()}

    @field_validator("bucket_size", mode="before")
    @classmethod
    def _bucket_size(cls, value: object) -> object:
        if isinstance(value, str):
            try:
                return BucketSize.parse(value)
            except InvalidInput as error:
                raise ValueError(str(error)) from None
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources, the first of which that has a setting decides."""
        return init_settings, _OfJournal(settings_cls), env_settings, file_secret_settings

    @classmethod
    def load(cls) -> Settings:
        """Read the environment, the journal's entry, and the secrets' directory if there is one.

        Raises:
            DefinitionError: the entry of the journal cannot be used.
            InvalidInput: the file or the journal is missing; or every unusable variable, in one
                line without the values, since a value may be a secret.
        """
        directory = os.environ.get("TIDEMARK_SECRETS_DIR")
        if directory and not Path(directory).is_dir():
            raise InvalidInput(
                f"there is no directory {directory}",
                where="TIDEMARK_SECRETS_DIR",
                do="mount the secrets there, a file each, such as TIDEMARK_CASSANDRA_PASSWORD",
            )
        try:
            return cls(_secrets_dir=directory or None)
        except SettingsError as error:
            _, name, *_ = str(error).split('"')
            why = error.__cause__.strerror if isinstance(error.__cause__, OSError) else "not UTF-8"
            raise InvalidInput(
                f"the file of TIDEMARK_{name.upper()} cannot be read: {why}",
                where=f"TIDEMARK_SECRETS_DIR, {directory}",
            ) from None
        except ValidationError as error:
            problems = "; ".join(
                f"TIDEMARK_{'.'.join(map(str, problem['loc'])).upper()}: {_plainly(problem)}"
                for problem in error.errors(include_input=False)
            )
            journal = chosen_journal()
            entry = "" if journal == DEFAULT_JOURNAL else f" or the entry of the journal {journal}"
            raise InvalidInput(
                problems, do=f"correct the environment{entry}, see docs/settings.md"
            ) from None

    @property
    def fresh_within(self) -> dict[str, int]:
        """Return the promised seconds by application, of those with a promise."""
        promises = {
            "tag-write": self.fresh_tag_write,
            "validate": self.fresh_validate,
            "replicate": self.fresh_replicate,
        }
        return {name: int(seconds_of(text)) for name, text in promises.items() if text}

    @property
    def readers_delay(self) -> timedelta:
        """Return how long readers of the journal wait for late events: runs leave these alone."""
        in_cassandra = self.events_by_tag_eventual_consistency_delay
        return timedelta(seconds=self.r2dbc_delay if self.is_r2dbc else in_cassandra)

    @property
    def save_directories(self) -> list[str]:
        """Return the directories and URIs that may have copies."""
        return [part.strip() for part in str(self.save_dirs).split(",") if part.strip()]

    @property
    def keep_reports_seconds(self) -> int:
        """Return the TTL of reports; 0 for none.

        It ends before 2038-01-19: many versions of Cassandra reject a later expiry.
        """
        seconds_left = int((_LAST_EXPIRY - clock.now()).total_seconds())
        return min(self.keep_reports_days * 24 * 3600, max(1, seconds_left))

    @property
    def first_time_bucket(self) -> int:
        """Return the start (epoch ms) of the bucket of `events-by-tag.first-time-bucket`."""
        return time_bucket(
            parse_first_time_bucket(self.events_by_tag_first_time_bucket), self.bucket_size
        )


def _plainly(problem: ErrorDetails) -> str:
    """Return a problem that pydantic has found, in plain words."""
    words = _PLAIN.get(problem["type"])
    if words is None:
        return problem["msg"].removeprefix("Value error, ")
    return words.format_map(problem.get("ctx", {}))
