"""Tags that are computed from events: one file of include/sql/tagging for each.

A rule's header names the tag and the payload's fields; its body is a predicate over them and over
the columns of `COLUMNS`. An event whose payload is not a JSON object has null in every field.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark import clock
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.errors import DefinitionError, InvalidInput, WrongData
from tidemark.headed_files.form import Form, Text
from tidemark.headed_files.header import error_in
from tidemark.headed_files.sql_file import read_sql_file
from tidemark.journal import tables
from tidemark.settings import Settings
from tidemark.spark.determinism import unrepeatable

COLUMNS = (
    "persistence_id",
    "sequence_nr",
    "time_bucket",
    "tags",
    "ser_id",
    "ser_manifest",
    "event_manifest",
)
"""What a predicate may use beside the payload's fields; `tags` are the stored ones."""
_EVENT, _FIELDS = "_event", "_fields"


class RuleHeader(Form):
    """The header of a tag rule."""

    tag: Text = Field(description="the tag that it gives", examples=["long-delay"])
    event: Text = Field(
        description="the payload's fields as Spark DDL", examples=["kind STRING, dep_delay INT"]
    )


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        file: where it is defined.
        tag: the tag that it gives.
        event: Spark DDL of the payload's fields.
        predicate: Spark SQL of type boolean.
        fingerprint: changes with the file's meaning.
    """

    file: Path
    tag: str
    event: str
    predicate: str
    fingerprint: str


def load(directory: Path) -> list[Rule]:
    """Every rule of a directory, by tag.

    Raises:
        InvalidInput: there is no such directory.
        DefinitionError: a file cannot be used, or two give the same tag.
    """
    if not directory.is_dir():
        raise InvalidInput(
            "there is no such directory",
            where=str(directory),
            do="set TIDEMARK_TAGGING_DIR to the directory of the tag rules",
        )
    found: dict[str, Rule] = {}
    for file in sorted(directory.glob("*.sql")):
        rule = _read(file)
        if rule.tag in found:
            raise error_in(
                file,
                f"the tag {rule.tag} is given by {found[rule.tag].file.name} already",
                "write one rule for each tag, with OR",
                1,
            )
        found[rule.tag] = rule
    return [found[tag] for tag in sorted(found)]


def version(rules: Sequence[Rule]) -> str:
    """What the ledger keeps with each piece: "" without rules, else a hash of all of them."""
    if not rules:
        return ""
    text = "\n".join(f"{rule.tag}={rule.fingerprint}" for rule in rules)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def check(spark: SparkSession, rules: Sequence[Rule]) -> None:
    """Parse and analyze each rule; nothing is read.

    Raises:
        DefinitionError: naming the file and what Spark refuses.
    """
    if not rules:
        return
    schema = "persistence_id string, sequence_nr bigint, time_bucket bigint, tags array<string>,"
    empty = spark.createDataFrame(
        [], f"{schema} ser_id int, ser_manifest string, event_manifest string, event binary"
    )
    for rule in rules:
        try:
            applied = _applied(empty, rule)
            kind = applied.schema["hit"].dataType
            unsteady = unrepeatable(applied)
        except PySparkException as error:
            raise _refused(rule, re.sub(r"^\[[A-Z_.0-9]+\] ", "", str(error))) from None
        if not isinstance(kind, T.BooleanType):
            raise _refused(rule, f"the predicate is {kind.simpleString()}, not boolean")
        if unsteady:
            raise _refused(
                rule, f"{', '.join(unsteady)} may give another tag next time, and shift numbers"
            )


def with_rule_tags(messages: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """`tags` joined by those of the rules, each once, sorted.

    Columns in: those of `journal.frames.message_index` and `events.READ`. Columns out: the same.
    """
    if not rules:
        return messages
    marked = messages.withColumn("rule_tags", F.array().cast("array<string>"))
    for rule in rules:
        # Spark takes out again what is only packed and unpacked here.
        marked = _applied(marked, rule).select(
            *[F.col(f"{_EVENT}.{name}") for name in messages.columns],
            F.when(F.col("hit"), F.concat(F.col(f"{_EVENT}.rule_tags"), F.array(F.lit(rule.tag))))
            .otherwise(F.col(f"{_EVENT}.rule_tags"))
            .alias("rule_tags"),
        )
    none = F.array().cast("array<string>")
    union = F.array_sort(F.array_union(F.coalesce(F.col("tags"), none), F.col("rule_tags")))
    return marked.withColumn("tags", union).drop("rule_tags")


def require_applied(control: Control, settings: Settings, rules: Sequence[Rule]) -> None:
    """Refuse a rule over a tag that has rows which another rule, or none, gave it.

    Its earlier events may now gain or lose the tag, and every number after them would shift.

    Raises:
        WrongData: naming the tag, and the rebuild that is needed.
    """
    if not rules:
        return
    recorded = {
        row["tag"]: row["fingerprint"]
        for row in control.execute(
            f"SELECT tag, fingerprint FROM {table(settings.keyspace, 'tag_rule')}"
            " WHERE journal_keyspace = ?",
            (settings.journal_keyspace,),
        )
    }
    changed = [rule for rule in rules if recorded.get(rule.tag) != rule.fingerprint]
    written = written_tags(control, settings, {rule.tag for rule in changed})
    for rule in changed:
        if rule.tag in written:
            how = "has changed" if rule.tag in recorded else "is new, and the tag has rows already"
            raise WrongData(
                f"the rule of tag {rule.tag} {how}: its numbers would shift",
                where=str(rule.file),
                do=f"run `spark_apps/reconcile.py rebuild --tag {rule.tag} --apply`",
            )


def record(control: Control, settings: Settings, rules: Sequence[Rule]) -> None:
    """Store which rule each tag is written with, before the first row is written."""
    control.execute_many(
        f"INSERT INTO {table(settings.keyspace, 'tag_rule')}"
        " (journal_keyspace, tag, fingerprint, applied_at) VALUES (?, ?, ?, ?)",
        [(settings.journal_keyspace, rule.tag, rule.fingerprint, clock.now()) for rule in rules],
    )


def _read(file: Path) -> Rule:
    parts = read_sql_file(file)
    header = parts.header.checked(RuleHeader)
    predicate = parts.body.strip()
    if not predicate or ";" in predicate:
        line = parts.body.count("\n", 0, len(parts.body) - len(parts.body.lstrip())) + 1
        raise error_in(
            file, "there is not one predicate", "write one condition, without a semicolon", line
        )
    meaning = "\n".join([header.tag, header.event, predicate])
    fingerprint = hashlib.sha256(meaning.encode()).hexdigest()[:12]
    return Rule(file, header.tag, header.event, predicate, fingerprint)


def _applied(messages: DataFrame, rule: Rule) -> DataFrame:
    """Columns: `_event` (all columns in a struct), `hit` (the predicate)."""
    text = F.decode("event", "UTF-8")
    fields = messages.withColumn(_FIELDS, F.from_json(text, rule.event))
    parsed = fields.schema[_FIELDS].dataType
    names = parsed.names if isinstance(parsed, T.StructType) else []
    clash = sorted(set(map(str.lower, names)) & {*COLUMNS})
    if clash:
        raise _refused(rule, f"a field cannot be named {', '.join(clash)}")
    return fields.select(
        F.struct(*messages.columns).alias(_EVENT),
        *COLUMNS,
        *[F.col(f"{_FIELDS}.{name}").alias(name) for name in names],
    ).select(_EVENT, F.expr(f"({rule.predicate}\n)").alias("hit"))


def written_tags(control: Control, settings: Settings, tags: Collection[str]) -> set[str]:
    """Those of the tags that have rows of the tag views or of their progress.

    Row by row, and no more of them than are needed: a journal has progress for each id and tag.
    """
    if not tags:
        return set()
    views = table(settings.journal_keyspace, settings.events_by_tag_table)
    progress = table(settings.journal_keyspace, tables.TAG_WRITE_PROGRESS)
    partitions = control.stream(f"SELECT DISTINCT tag_name, timebucket FROM {views}", page=5000)
    found = {row["tag_name"] for row in partitions} & set(tags)
    return found | {
        tag
        for tag in set(tags) - found
        if control.execute(
            f"SELECT tag FROM {progress} WHERE tag = ? LIMIT 1 ALLOW FILTERING", (tag,)
        )
    }


def _refused(rule: Rule, what: str) -> DefinitionError:
    first = what.strip().splitlines()[0]
    return error_in(
        rule.file,
        f"the rule of tag {rule.tag}: {first}",
        f"use the fields of its header `event` and {', '.join(COLUMNS)}",
        1,
    )
