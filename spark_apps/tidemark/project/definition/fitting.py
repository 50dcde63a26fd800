"""Finds values of a header that are valid alone, but not in combination."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from tidemark.cassandra.schema import identifier
from tidemark.errors import InvalidInput
from tidemark.project.definition.decoder import DecoderKind, DecoderRule
from tidemark.project.definition.header import ProjectionHeader, Retry
from tidemark.project.definition.model import FileFormat, Mode, Release, Start
from tidemark.project.definition.source import (
    KafkaJournal,
    Messages,
    PersistenceIds,
    ReadModel,
    Source,
    Tags,
)
from tidemark.user_files.header import Header

RESET = "accept-sequence-number-reset-after"
_SKIPPING = {"skip", "retry-and-skip"}
_OF_ROLLUPS = {"name", "version", "source", "mode", "target", "checks", "key"}


def require_fitting(
    header: Header, form: ProjectionHeader, source: Source, decoders: Sequence[DecoderRule]
) -> None:
    """Reject a header with values that do not fit together.

    Raises:
        DefinitionError: at the place of the value to change.
    """
    mode, resets = form.mode, form.accept_sequence_number_reset_after != "off"
    is_fold, starts_late = mode is Mode.FOLD, form.start is Start.SNAPSHOT
    runs_python = is_fold or any(rule.kind is DecoderKind.PYTHON for rule in decoders)
    policy = form.on_error
    skips = (policy.strategy if isinstance(policy, Retry) else policy) in _SKIPPING
    problems: Sequence[tuple[bool, str, str, str]] = [
        (
            is_fold and not form.state,
            "mode",
            "mode fold needs the fields of its state",
            "give it as Spark DDL, such as `balance DECIMAL(9,2), moves INT`",
        ),
        (bool(form.state) and not is_fold, "state", f"mode {mode} has no state", "leave state out"),
        # Each tag has its own numbering: events of another tag, and late rows, may have a lower
        # sequence nr than events already folded. And a fold reads the history of a persistence id
        # from messages by its key.
        (
            is_fold and isinstance(source, Tags | KafkaJournal),
            "source",
            f"mode fold does not read {'tags' if isinstance(source, Tags) else 'kafka-journal'}",
            "write `messages`; what the fold does not need it can ignore by the tags",
        ),
        (
            is_fold and bool(form.with_),
            "with",
            "mode fold joins no tables: its function gets the events of one persistence id",
            "leave with out, or join in a projection of another mode",
        ),
        (
            "events" in form.with_,
            "with",
            "events are those of the source",
            "give the table another name",
        ),
        # A snapshot does not record how many events of a tag it covers; kafka-journal has none.
        (
            starts_late and not isinstance(source, Messages | PersistenceIds),
            "start",
            "start snapshot needs the source messages or persistence-ids",
            "leave start out, or read messages",
        ),
        # A snapshot replaces events of many time buckets, and many rows of a log.
        (
            starts_late and not mode.is_one_row,
            "start",
            f"start snapshot does not fit the mode {mode}",
            "leave start out, or use a mode with a row per persistence id: upsert or fold",
        ),
        (
            form.release is Release.BLUE_GREEN and mode is Mode.EXPORT,
            "release",
            "mode export is not released blue/green",
            "write the new version to another target by another definition",
        ),
        (
            "file_format" in form.model_fields_set and mode is not Mode.EXPORT,
            "file-format",
            f"mode {mode} writes a table of Cassandra, and no files",
            "write `mode: export`, or leave file-format out",
        ),
        (
            "promote" in form.model_fields_set and form.release is not Release.BLUE_GREEN,
            "promote",
            "promote is for a projection that is released blue/green",
            "write `release: blue-green` too, or leave promote out",
        ),
        (
            resets and isinstance(source, Tags),
            RESET,
            f"{RESET} does not fit the source tags",
            "leave it out, or read messages: tag pid sequence nrs do not begin anew",
        ),
        (
            resets and not mode.replaces_buckets,
            RESET,
            f"{RESET} does not fit the mode {mode}",
            "leave it out: the rows of the former events would stay, or win over new ones",
        ),
        (
            form.look_back is not None and not isinstance(source, Tags),
            "look-back",
            "look-back is for the source tags",
            "leave it out: of this source late events are found however late they come",
        ),
        (
            isinstance(form.on_error, Retry) and not runs_python,
            "on-error",
            "there is no Python function to try again: neither a decoder nor a fold",
            "write skip or fail",
        ),
        (
            bool(form.most_skipped) and not skips,
            "most-skipped",
            "most-skipped limits what is skipped, and on-error is fail",
            "write `on-error: skip`, or leave most-skipped out",
        ),
        (
            bool(form.key) and mode is Mode.EXPORT,
            "key",
            "the files and tables of mode export have no key",
            "leave it out",
        ),
    ]
    for is_wrong, key, what, do in (*_of_rollups(form, source), *problems):
        if is_wrong:
            raise header.error(what, do, key)


def _of_rollups(form: ProjectionHeader, source: Source) -> Sequence[tuple[bool, str, str, str]]:
    """Return problems between the mode rollup and other keys, like `problems` above."""
    is_rollup, reads_rows = form.mode is Mode.ROLLUP, isinstance(source, ReadModel)
    stated = [
        str(ProjectionHeader.model_fields[name].alias) for name in sorted(form.model_fields_set)
    ]
    return [
        (
            is_rollup and not reads_rows,
            "source",
            "mode rollup reads the read model of another projection, and no events",
            "write its name, such as `source: {read-model: daily_punctuality}`",
        ),
        (
            reads_rows and not is_rollup,
            "mode",
            f"mode {form.mode} reads events, and the source is a read model",
            "write `mode: rollup`",
        ),
        *(
            (
                is_rollup and key not in _OF_ROLLUPS,
                key,
                f"{key} does not fit the mode rollup, which reads rows of a read model",
                "leave it out",
            )
            for key in stated
        ),
    ]


def target_of(header: Header, form: ProjectionHeader) -> tuple[str, str, str, str]:
    """Return keyspace, table as the file names it, table of this version, and path.

    Parts that the mode does not have are empty.

    Raises:
        DefinitionError: the target is not the table or directory that mode and format need.
    """
    if form.mode is Mode.EXPORT:
        if form.file_format is FileFormat.ICEBERG:
            _require_iceberg_table(header, form.target)
        else:
            _require_directory(header, form.target)
        return "", "", "", form.target
    keyspace, dot, template = form.target.partition(".")
    if not dot:
        what = f"the target {keyspace!r} has no keyspace"
        raise header.error(what, "write `keyspace.table`", "target")
    is_blue_green = form.release is Release.BLUE_GREEN
    table = f"{template}_v{form.version}" if is_blue_green else template
    for text, noun in ((keyspace, "keyspace"), (template, "table"), (table, "table")):
        try:
            identifier(text)
        except InvalidInput as error:
            what = f"the target's {noun} {text!r} is not an identifier"
            raise header.error(what, error.do, "target") from None
    return keyspace, template, table, ""


def _require_iceberg_table(header: Header, text: str) -> None:
    parts = text.split(".")
    if len(parts) == 1:
        what = f"the target {text!r} has no namespace"
        raise header.error(what, "write `namespace.table`, such as `lake.flights`", "target")
    for part in parts:
        try:
            identifier(part)
        except InvalidInput as error:
            what = f"{part!r} in the target is not a name of an Iceberg namespace or table"
            raise header.error(what, error.do, "target") from None


def _require_directory(header: Header, text: str) -> None:
    if "@" in text and _has_password(text):
        # The message does not repeat the target, because errors are logged.
        remedy = "leave user and password to Spark's own settings, and replace them"
        raise header.error("the target has a password in it", remedy, "target")
    if not text.isprintable() or ".." in text.split("/"):
        remedy = "write a directory, or a URI such as `hdfs://name/directory`, in one line"
        what = f"the target {text!r} is not a directory's name"
        raise header.error(what, remedy, "target")


def _has_password(text: str) -> bool:
    try:
        return urlsplit(text).password is not None
    except ValueError:
        # Not a URI: it may contain a password.
        return True
