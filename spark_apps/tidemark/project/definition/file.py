"""Reads the file that defines a projection: in SQL a header in YAML and a SELECT.

In Python the header is the arguments of a decorator above a function. This module neither needs
Spark nor runs the file: `analysis.analyze` checks the SQL or function, and the event's fields.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tidemark.errors import DefinitionError
from tidemark.project.definition import query
from tidemark.project.definition.decoder import MODULES_DIR, DecoderKind, DecoderRule
from tidemark.project.definition.fitting import require_fitting, target_of
from tidemark.project.definition.header import AnyRule, EventSourceForm, ProjectionHeader, Retry
from tidemark.project.definition.model import Definition, Key, Mode, Promote, Release
from tidemark.project.definition.on_error import MostSkipped, OnError
from tidemark.project.definition.source import (
    KafkaJournal,
    Messages,
    PersistenceIds,
    ReadModel,
    Source,
    Tags,
)
from tidemark.project.definition.user_modules import sources_in
from tidemark.text import seconds_of
from tidemark.user_files.header import Header
from tidemark.user_files.python_file import PythonFile, read_python_file
from tidemark.user_files.sql_file import SqlFile, read_sql_file
from tidemark.user_sql.row_check import read_checks

_NO_EFFECT = {
    "checks",
    "deleted_before_consumed",
    "fresh_within",
    "from_",
    "key",
    "look_back",
    "most_skipped",
    "promote",
    "release",
}
"""Keys of a header that do not change the result."""


def read(file: Path) -> Definition:
    """Read the definition in a file.

    Raises:
        DefinitionError: the file is no valid definition.
    """
    parts = read_python_file(file) if file.suffix == ".py" else read_sql_file(file)
    header = parts.header
    form = header.checked(ProjectionHeader)
    source = _source(form.source)
    decoders = _rules(header, form.decoders)
    require_fitting(header, form, source, decoders)
    keyspace, template, table, path = target_of(header, form)
    return Definition(
        file=file,
        name=form.name,
        version=form.version,
        source=source,
        journal="" if isinstance(form.source, str) else form.source.journal,
        start=form.start,
        begin=_begin(header, form.from_),
        mode=form.mode,
        keyspace=keyspace,
        table=table,
        template=template,
        is_blue_green=form.release is Release.BLUE_GREEN,
        is_promoted_by_hand=form.promote is Promote.MANUAL,
        path=path,
        event=header.node("event").padded,
        formats=form.formats,
        tables=form.with_,
        reset_after=_reset_after(form.accept_sequence_number_reset_after),
        look_back=form.look_back,
        fresh_within=int(seconds_of(form.fresh_within)) if form.fresh_within else None,
        decoders=decoders,
        on_error=_on_error(form),
        if_deleted=form.deleted_before_consumed,
        state=header.node("state").padded,
        checks=read_checks(header, "checks", form.checks),
        key=_key(header, form.key),
        body=query.of(parts, [source.input, *form.with_], is_fold=form.mode is Mode.FOLD),
        fingerprint=f"{form.version}-{_hash(parts, form, decoders)}",
        header_lines={key: header.line_of(key) for key in form.fields()},
    )


def _source(form: str | EventSourceForm) -> Source:
    if isinstance(form, str):
        return Messages()
    if form.entity_types:
        return Messages(form.entity_types)
    if form.tags:
        return Tags(form.tags)
    if form.persistence_ids:
        return PersistenceIds(form.persistence_ids)
    if form.read_model:
        return ReadModel(form.read_model)
    return KafkaJournal(form.kafka_journal) if form.kafka_journal else Messages()


def _begin(header: Header, text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        what, do = f"from cannot be {text!r}", "write a day that there is, such as `2026-01-01`"
        raise header.error(what, do, "from") from None
    return moment.replace(tzinfo=UTC)


def _on_error(form: ProjectionHeader) -> OnError:
    policy = form.on_error
    most_skipped = MostSkipped.parse(form.most_skipped) if form.most_skipped else None
    if isinstance(policy, Retry):
        fails, delay_s = policy.strategy == "retry-and-fail", seconds_of(policy.retry_delay)
        return OnError(fails, policy.retries, delay_s, most_skipped)
    return OnError(policy != "skip", most_skipped=most_skipped)


def _reset_after(text: str) -> int | None:
    return None if text == "off" else int(seconds_of(text))


def _key(header: Header, columns: tuple[str, ...]) -> Key | None:
    places = tuple(header.node("key", number).place for number in range(len(columns)))
    return Key(columns, places) if columns else None


def _hash(
    parts: SqlFile | PythonFile, form: ProjectionHeader, decoders: Sequence[DecoderRule]
) -> str:
    """Hash everything that determines the result; the header's layout has no influence."""
    # `skip` was the default: a definition that states it now must keep its fingerprint.
    excluded = {*_NO_EFFECT, "on_error"} if form.on_error == "skip" else _NO_EFFECT
    header = form.model_dump_json(by_alias=True, exclude=excluded, exclude_defaults=True)
    body = parts.code if isinstance(parts, PythonFile) else parts.body.strip()
    digest = hashlib.sha256(f"{header}\n{body}".encode())
    used_modules = []
    if isinstance(parts, PythonFile):
        used_modules.append((sources_in(parts.header.file.parent), parts.header.file.stem))
    for rule in decoders:
        if rule.path is not None:
            digest.update(rule.path.read_bytes())
        if rule.kind is DecoderKind.PYTHON:
            used_modules.append((sources_in(rule.modules_dir), rule.function[0]))
    for sources, module in used_modules:
        for name in sources.used_by(module):
            digest.update(sources.modules[name].text)
    return digest.hexdigest()[:12]


def _rules(header: Header, forms: Sequence[AnyRule]) -> tuple[DecoderRule, ...]:
    """Return the rules in their order; the first rule that selects an event decodes it.

    Raises:
        DefinitionError: no event reaches a rule, or the rule's file does not exist.
    """
    rules: list[DecoderRule] = []
    for number, form in enumerate(forms):
        rule = _rule(header, number, form)
        for earlier in rules:
            if earlier.takes_all_of(rule):
                raise rule.error(
                    f"no event reaches this rule: that of {earlier.line}:{earlier.column}"
                    " takes them all",
                    "put the narrower rule first, or drop one",
                )
        if rule.path is not None and not rule.path.is_file():
            raise _missing(rule, rule.path)
        rules.append(rule)
    return tuple(rules)


def _rule(header: Header, number: int, form: AnyRule) -> DecoderRule:
    place = header.node("decoders", number).place
    if isinstance(form, str):
        return DecoderRule(None, None, DecoderKind(form), (), header.file, *place)
    arguments = form.model_dump(exclude={"serializer_id", "manifest", "kind"}, exclude_none=True)
    return DecoderRule(
        form.serializer_id,
        form.manifest,
        DecoderKind(form.kind),
        tuple(arguments.values()),
        header.file,
        *place,
    )


def _missing(rule: DecoderRule, path: Path) -> DefinitionError:
    if rule.kind is DecoderKind.PYTHON:
        remedy = f"put the module beside the definition or into {MODULES_DIR}"
        return rule.error(f"there is no module {rule.function[0]}", remedy)
    return rule.error(f"there is no file {path}", "name it relative to the definition's own file")
