"""Finds values of a header that are valid alone, but not in combination."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.project.definition.decoder import DecoderKind, DecoderRule
from tidemark.project.definition.header import ProjectionHeader, Retry
from tidemark.project.definition.model import Mode, Release, Start
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
