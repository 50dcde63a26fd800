"""Tags that are computed from events: one file of include/sql/tagging for each.

A rule's header names the tag and the payload's fields; its body is a predicate over these fields
and `COLUMNS`. An event whose payload is not a JSON object has null in every field.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from tidemark.installation import program
from tidemark.journals.pekko import event_type, tables
from tidemark.ledger import applications
from tidemark.settings import Settings
from tidemark.spark import json_values, time_formats
from tidemark.spark.bounded_json import is_unbounded
from tidemark.spark.determinism import unrepeatable
from tidemark.spark.shapes import ddl, shaped
from tidemark.tag_write import shapes
from tidemark.user_files.directory import require_directory
from tidemark.user_files.form import HeaderModel, Text
from tidemark.user_files.header import error_in
from tidemark.user_files.sql_file import read_sql_file
from tidemark.user_sql import allowed
from tidemark.user_sql.ansi import ansi, attempted

COLUMNS = (
    "persistence_id",
    "sequence_nr",
    "time_bucket",
    "tags",
    *event_type.NAMES,
)
"""The columns that a predicate may use besides the payload's fields; `tags` are the stored tags."""
_EVENT, _FIELDS, _UNREADABLE = "_event", "_fields", "_unreadable"
FAILED_RULE = "failed_rule"


class RuleHeader(HeaderModel):
    """The header of a tag rule."""

    tag: Text = Field(description="the tag that it gives", examples=["long-delay"])
    event: Text = Field(
        description="the payload's fields as Spark DDL", examples=["kind STRING, dep_delay INT"]
    )
    formats: dict[str, Text] = Field(
        {},
        description="of TIMESTAMP fields, as in a projection",
        examples=[{"departed": "epoch-millis"}],
    )


@dataclass(frozen=True)
class TagRule:
    """A rule that adds a tag to the events for which its predicate holds.

    Attributes:
        file: the file that defines the rule.
        tag: the tag that the rule adds.
        event: Spark DDL of the payload's fields.
        formats: formats of its TIMESTAMP fields, see `time_formats.with_formats`.
        predicate: Spark SQL of type boolean.
        fingerprint: changes with the file's meaning.
    """

    file: Path
    tag: str
    event: str
    formats: Mapping[str, str]
    predicate: str
    fingerprint: str


def load(directory: Path) -> list[TagRule]:
    """Read every rule of a directory, sorted by tag.

    Raises:
        DefinitionError: a file cannot be used, or two give the same tag.
    """
    require_directory(directory, "TIDEMARK_TAGGING_DIR", "the tag rules")
    rules_by_tag: dict[str, TagRule] = {}
    for file in sorted(directory.glob("*.sql")):
        rule = _read(file)
        if rule.tag in rules_by_tag:
            raise error_in(
                file,
                f"the tag {rule.tag} is given by {rules_by_tag[rule.tag].file.name} already",
                "write one rule for each tag, with OR",
                1,
            )
        rules_by_tag[rule.tag] = rule
    return [rules_by_tag[tag] for tag in sorted(rules_by_tag)]


def version(rules: Sequence[TagRule]) -> str:
    """Return the version that the ledger records for each piece: a hash of all rules, or ""."""
    if not rules:
        return ""
    text = "\n".join(f"{rule.tag}={rule.fingerprint}" for rule in rules)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def check(spark: SparkSession, rules: Sequence[TagRule]) -> None:
    """Parse and analyze each rule, without reading any event.

    Raises:
        DefinitionError: Spark rejects a rule; the message names the file and the reason.
    """
    if not rules:
        return
    empty = spark.createDataFrame([], ddl(shapes.READ))
    for rule in rules:
        try:
            with allowed.flat():
                applied = _applied(empty, rule)
            data_type = applied.select("hit.value").schema["value"].dataType
            unsteady = unrepeatable(applied)
        except PySparkException as error:
            raise _refused(rule, re.sub(r"^\[[A-Z_.0-9]+\] ", "", str(error))) from None
        if not isinstance(data_type, T.BooleanType):
            raise _refused(rule, f"the predicate is {data_type.simpleString()}, not boolean")
        if unsteady:
            raise _refused(
                rule, f"{', '.join(unsteady)} may give another tag next time, and shift numbers"
            )


@shaped(messages=shapes.READ, returns=shapes.READ)
def with_rule_tags(messages: DataFrame, rules: Sequence[TagRule]) -> DataFrame:
    """Return the messages with the tags of the rules added to `tags`, distinct and sorted.

    The column FAILED_RULE is added: the tag of the first rule whose predicate fails for the event,
    such as by an overflow, or null. The event gets that tag, too: it may be intended.
    """
    if not rules:
        return messages
    marked = messages.withColumns(
        {"rule_tags": F.array().cast("array<string>"), FAILED_RULE: F.lit(None).cast("string")}
    )
    for rule in rules:
        tag, earlier_tags = F.lit(rule.tag), F.col(f"{_EVENT}.rule_tags")
        has_failed = F.col("hit").isNull()
        # The optimizer removes a struct that is only packed and unpacked.
        marked = _applied(marked, rule).select(
            *[F.col(f"{_EVENT}.{name}") for name in messages.columns],
            F.when(has_failed | F.col("hit.value"), F.concat(earlier_tags, F.array(tag)))
            .otherwise(earlier_tags)
            .alias("rule_tags"),
            F.coalesce(f"{_EVENT}.{FAILED_RULE}", F.when(has_failed, tag)).alias(FAILED_RULE),
        )
    no_tags = F.array().cast("array<string>")
    union = F.array_sort(F.array_union(F.coalesce(F.col("tags"), no_tags), F.col("rule_tags")))
    return marked.withColumn("tags", union).drop("rule_tags")


def tags_of(rules: Iterable[TagRule]) -> frozenset[str]:
    """Return the tags that the rules give."""
    return frozenset(rule.tag for rule in rules)


def require_applied(control: Control, settings: Settings, rules: Sequence[TagRule]) -> None:
    """Reject a new or changed rule whose tag has rows already, and the absence of a rule with rows.

    With a new or changed rule, earlier events may gain or lose the tag, and every number after them
    would shift.

    Raises:
        WrongData: there is such a rule; the message names its tag and the rebuild it needs.
        InvalidInput: from `require_present`.
    """
    require_present(control, settings, rules)
    for rule, difference in changed(control, settings, rules):
        raise WrongData(
            f"the rule of tag {rule.tag} {difference}: its numbers would shift",
            where=str(rule.file),
            do=f"run `{program(applications.RECONCILE)} rebuild --tag {rule.tag} --apply`",
        )


def changed(
    control: Control, settings: Settings, rules: Sequence[TagRule]
) -> list[tuple[TagRule, str]]:
    """Return the rules that differ from those by which rows of their tags exist, and how."""
    if not rules:
        return []
    recorded = _recorded(control, settings)
    differing = [rule for rule in rules if recorded.get(rule.tag) != rule.fingerprint]
    tags_with_rows = written_tags(control, settings, {rule.tag for rule in differing})
    return [
        (rule, "has changed" if rule.tag in recorded else "is new, and the tag has rows already")
        for rule in differing
        if rule.tag in tags_with_rows
    ]


def require_present(control: Control, settings: Settings, rules: Sequence[TagRule]) -> None:
    """Require the rules by which rows of tags exist: a run without them would drop their tags.

    They are absent if a run reads another directory, such as the shipped one.

    Raises:
        InvalidInput: the directory has no rule of a tag that has rows by a rule.
    """
    absent_tags = _recorded(control, settings).keys() - tags_of(rules)
    if tags := sorted(written_tags(control, settings, absent_tags)):
        options = " ".join(f"--tag {shlex.quote(tag)}" for tag in tags)
        raise InvalidInput(
            f"there is no rule of {', '.join(tags)} any more, which gave the tag to existing rows",
            where=str(settings.tagging_dir),
            do="set TIDEMARK_TAGGING_DIR to the directory that has the rule; or, to remove the tag,"
            f" run `{program(applications.RECONCILE)} delete {options} --apply`",
        )


def _recorded(control: Control, settings: Settings) -> dict[str, str]:
    """Return the fingerprint of the rule of each tag that was given by a rule."""
    rows = control.execute(
        f"SELECT tag, fingerprint FROM {table(settings.keyspace, 'tag_rule')}"
        " WHERE journal_keyspace = ?",
        (settings.journal_keyspace,),
    )
    return {row["tag"]: row["fingerprint"] for row in rows}


def forget_absent(control: Control, settings: Settings, tags: Collection[str]) -> None:
    """Delete the records of those tags that no rule gives any more, after their last row."""
    absent_tags = set(tags) - tags_of(load(settings.tagging_dir))
    control.execute_many(
        f"DELETE FROM {table(settings.keyspace, 'tag_rule')} WHERE journal_keyspace = ?"
        " AND tag = ?",
        [(settings.journal_keyspace, tag) for tag in sorted(absent_tags)],
    )


def record(control: Control, settings: Settings, rules: Sequence[TagRule]) -> None:
    """Store the rule of each tag, before the first row is written by it."""
    control.execute_many(
        f"INSERT INTO {table(settings.keyspace, 'tag_rule')}"
        " (journal_keyspace, tag, fingerprint, applied_at) VALUES (?, ?, ?, ?)",
        [(settings.journal_keyspace, rule.tag, rule.fingerprint, clock.now()) for rule in rules],
    )


def _read(file: Path) -> TagRule:
    parts = read_sql_file(file)
    header = parts.header.checked(RuleHeader)
    if len(header.tag.encode()) > shapes.LONGEST_TAG:
        raise error_in(
            file, f"the tag has more than {shapes.LONGEST_TAG:,} bytes", "choose a shorter one", 1
        )
    predicate = parts.body.strip()
    if not predicate or ";" in predicate:
        line = parts.body.count("\n", 0, len(parts.body) - len(parts.body.lstrip())) + 1
        raise error_in(
            file, "there is not one predicate", "write one condition, without a semicolon", line
        )
    formats = [f"{name}: {header.formats[name]}" for name in sorted(header.formats)]
    meaning = "\n".join([header.tag, header.event, *formats, predicate])
    fingerprint = hashlib.sha256(meaning.encode()).hexdigest()[:12]
    return TagRule(file, header.tag, header.event, header.formats, predicate, fingerprint)


def _applied(messages: DataFrame, rule: TagRule) -> DataFrame:
    """Evaluate a rule. Columns: `_event` (all columns as a struct), `hit` (see `attempted`)."""
    text = F.decode("event", "UTF-8")
    parsed = messages.select(F.from_json(text, rule.event).alias(_FIELDS)).schema[_FIELDS].dataType
    names = parsed.names if isinstance(parsed, T.StructType) else []
    fields = messages
    if isinstance(parsed, T.StructType):
        try:
            parsed = time_formats.with_formats(messages.sparkSession, parsed, rule.formats)
        except time_formats.BadFormat as error:
            raise _refused(rule, str(error)) from None
        read = time_formats.as_read(parsed)
        text = F.when(~is_unbounded(text, read), text)
        fields = json_values.with_values(messages, _FIELDS, text, read, _UNREADABLE)
        times = time_formats.converted(F.col(_FIELDS), parsed, _UNREADABLE)
        fields = fields.withColumn(_FIELDS, times)
        is_readable = F.col(f"{_FIELDS}.{_UNREADABLE}").isNull()
        fields = fields.withColumn(_FIELDS, F.when(is_readable, F.col(_FIELDS)))
    clash = sorted(set(map(str.lower, names)) & {*COLUMNS})
    if clash:
        raise _refused(rule, f"a field cannot be named {', '.join(clash)}")
    inputs = fields.select(
        F.struct(*messages.columns).alias(_EVENT),
        "persistence_id",
        "sequence_nr",
        "time_bucket",
        "tags",
        *event_type.columns(),
        *[F.col(f"{_FIELDS}.{name}").alias(name) for name in names],
    )
    spark = messages.sparkSession
    predicate = allowed.expression(spark, f"({rule.predicate}\n)")
    with ansi(spark):
        return inputs.select(_EVENT, attempted(spark, predicate).alias("hit"))


def written_tags(control: Control, settings: Settings, tags: Collection[str]) -> set[str]:
    """Return the tags that have rows in the tag views or in tag_write_progress.

    Of progress, which has a row for each id and tag, only one row of a tag is read.
    """
    if not tags:
        return set()
    views = table(settings.journal_keyspace, settings.events_by_tag_table)
    progress = table(settings.journal_keyspace, tables.TAG_WRITE_PROGRESS)
    partitions = control.stream(f"SELECT DISTINCT tag_name, timebucket FROM {views}", page=5000)
    tags_with_views = {row["tag_name"] for row in partitions} & set(tags)
    return tags_with_views | {
        tag
        for tag in set(tags) - tags_with_views
        if control.execute(
            f"SELECT tag FROM {progress} WHERE tag = ? LIMIT 1 ALLOW FILTERING", (tag,)
        )
    }


def _refused(rule: TagRule, reason: str) -> DefinitionError:
    first_line = reason.strip().splitlines()[0]
    return error_in(
        rule.file,
        f"the rule of tag {rule.tag}: {first_line}",
        f"use the fields of its header `event` and {', '.join(COLUMNS)}",
        1,
    )
