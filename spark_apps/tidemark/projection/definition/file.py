"""The file that defines a projection: a header of `-- key: value` lines, then one SELECT.

Or, in Python, the same header as the arguments of a decorator, and the function below it. Nothing
here needs Spark, nor runs what the file has: `analysis.analyze` checks the SQL or the function, and
the event's fields.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tidemark.cassandra.schema import identifier
from tidemark.errors import InvalidInput
from tidemark.headed_files.python_file import PythonFile, read_python_file
from tidemark.headed_files.sql_file import SqlFile, Value, error_in, read_sql_file
from tidemark.projection.definition import checks, on_error, query, target_key
from tidemark.projection.definition.decoder import DecoderRule, Kind, parse
from tidemark.projection.definition.model import MAX_VERSION, Definition, Mode, Release
from tidemark.projection.definition.source import KafkaJournal, Source, Tags
from tidemark.projection.definition.source import parse as parse_source
from tidemark.projection.definition.start_from import parse as parse_start

_HEADERS = {
    "name": "daily_punctuality",
    "version": "1",
    "source": "messages",
    "mode": "bucket",
    "target": "flights.daily_punctuality",
    "event": "kind STRING, dep_delay INT",
}
"""The headers that every file has, with what they may look like."""
RESET = "accept-sequence-number-reset-after"
_NO_STATE = "none"
_BY_SETTING = "default"
_DEFAULTS = {
    "start": "first-event",
    "decoder": "json",
    "on-error": "skip",
    "state": _NO_STATE,
    RESET: "off",
    "look-back": _BY_SETTING,
    "checks": checks.NONE,
    "release": "in-place",
    "key": target_key.NO_KEY,
}
"""The headers that may be left out, with the value that they have then."""
_BESIDE = ("checks", "release", "look-back", "key")
"""The headers that do not change the result."""
MAX_LOOK_BACK = 10_000
"""Time buckets: more of them are better searched by the gap that a late event leaves."""
_DURATION = re.compile(r"(\d{1,9}) ?([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def read(file: Path) -> Definition:
    """The definition in one file.

    Raises:
        DefinitionError: naming the file, the line and what would be right.
    """
    parts = _taken_apart(file)
    values = parts.header
    version = _version(file, values["version"])
    mode = _mode(file, values["mode"])
    source = parse_source(file, values["source"])
    keyspace, template, path = _target(file, values["target"], mode)
    is_blue_green = _release(file, values["release"], mode) is Release.BLUE_GREEN
    table = f"{template}_v{version}" if is_blue_green else template
    decoders = parse(file, values["decoder"])
    runs_python = mode is Mode.FOLD or any(rule.kind is Kind.PYTHON for rule in decoders)
    _require_foldable(file, values, mode, source)
    return Definition(
        file=file,
        name=_name(file, values["name"].text.strip(), values["name"].line, "name"),
        version=version,
        source=source,
        start=parse_start(file, values["start"], source, mode, is_one_row=mode.is_one_row),
        mode=mode,
        keyspace=keyspace,
        table=_name(file, table, values["target"].line, "target's table") if table else "",
        template=template,
        is_blue_green=is_blue_green,
        path=path,
        event=parts.padded("event"),
        reset_after=_reset_after(file, values[RESET], source, mode),
        look_back=_look_back(file, values["look-back"], source),
        decoders=decoders,
        on_error=on_error.parse(file, values["on-error"], runs_python=runs_python),
        state=parts.padded("state") if mode is Mode.FOLD else "",
        checks=checks.parse(file, values["checks"]),
        key=target_key.parse_key(file, values["key"], has_table=mode is not Mode.EXPORT),
        body=query.of(parts, is_fold=mode is Mode.FOLD),
        fingerprint=f"{version}-{_hash(parts.without(_BESIDE), decoders)}",
        header_lines={key: value.line for key, value in values.items()},
    )


def _taken_apart(file: Path) -> SqlFile | PythonFile:
    if file.suffix == ".py":
        return read_python_file(file, _HEADERS, _DEFAULTS)
    return read_sql_file(file, _HEADERS, _DEFAULTS)


def _require_foldable(file: Path, values: Mapping[str, Value], mode: Mode, source: Source) -> None:
    """What the header of mode fold must say, and that of no other mode may."""
    has_state = values["state"].text.strip() != _NO_STATE
    if has_state != (mode is Mode.FOLD):
        if has_state:
            what = f"mode {mode} has no state"
            raise error_in(file, what, "leave state out", values["state"].line)
        remedy = "give it as Spark DDL, such as `balance DECIMAL(9,2), moves INT`"
        raise error_in(file, "mode fold needs the fields of its state", remedy, values["mode"].line)
    if mode is Mode.FOLD and isinstance(source, Tags | KafkaJournal):
        # A tag numbers its own events: those of another tag, or a row that comes late to one, may
        # have a lower sequence nr than what was folded. And the history of a persistence id is
        # read from messages by its key.
        kind = "tags" if isinstance(source, Tags) else "kafka-journal"
        remedy = "write `messages`; what the fold does not need it can ignore by the tags"
        raise error_in(file, f"mode fold does not read {kind}", remedy, values["source"].line)


def _hash(text: str, decoders: Sequence[DecoderRule]) -> str:
    whole = hashlib.sha256(text.encode())
    for rule in decoders:
        if rule.path is not None:
            whole.update(rule.path.read_bytes())
    return whole.hexdigest()[:12]


def _name(file: Path, text: str, line: int, what: str) -> str:
    try:
        identifier(text)
    except InvalidInput as error:
        raise error_in(file, f"the {what} {text!r} is not an identifier", error.do, line) from None
    return text


def _version(file: Path, value: Value) -> int:
    text = value.text.strip()
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_VERSION):
        remedy = f"write a whole number from 1 to {MAX_VERSION}"
        raise error_in(file, f"the version {text!r} cannot be used", remedy, value.line)
    return int(text)


def _mode(file: Path, value: Value) -> Mode:
    text = value.text.strip()
    if text not in list(Mode):
        raise error_in(file, f"unknown mode {text!r}", f"known are {', '.join(Mode)}", value.line)
    return Mode(text)


def _release(file: Path, value: Value, mode: Mode) -> Release:
    text = value.text.strip()
    if text not in list(Release):
        known = f"known are {', '.join(Release)}"
        raise error_in(file, f"unknown release {text!r}", known, value.line)
    if text == Release.BLUE_GREEN and mode is Mode.EXPORT:
        remedy = "write the new version to another directory by another definition"
        raise error_in(file, "mode export is not released blue/green", remedy, value.line)
    return Release(text)


def _target(file: Path, value: Value, mode: Mode) -> tuple[str, str, str]:
    """Keyspace, table and path; what the mode does not have is empty."""
    text = value.text.strip()
    if mode is Mode.EXPORT:
        return "", "", _directory(file, text, value.line)
    keyspace, dot, table = text.partition(".")
    if not dot:
        what = f"the target {keyspace!r} has no keyspace"
        raise error_in(file, what, "write `keyspace.table`", value.line)
    return (
        _name(file, keyspace, value.line, "target's keyspace"),
        _name(file, table, value.line, "target's table"),
        "",
    )


def _reset_after(file: Path, value: Value, source: Source, mode: Mode) -> int | None:
    text = value.text.strip()
    if text == "off":
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        what = f"{RESET} cannot be {text!r}"
        raise error_in(
            file, what, "write `off`, or a time such as `10 s`, `5 m`, `1 h`", value.line
        )
    if isinstance(source, Tags):
        remedy = "leave it out, or read messages: tag pid sequence nrs do not begin anew"
        raise error_in(file, f"{RESET} does not fit the source tags", remedy, value.line)
    if not mode.replaces_buckets:
        remedy = "leave it out: the rows of the former events would stay, or win over new ones"
        raise error_in(file, f"{RESET} does not fit the mode {mode}", remedy, value.line)
    return int(match[1]) * _SECONDS[match[2]]


def _look_back(file: Path, value: Value, source: Source) -> int | None:
    text = value.text.strip()
    if text == _BY_SETTING:
        return None
    if not isinstance(source, Tags):
        remedy = "leave it out: of this source late events are found however late they come"
        raise error_in(file, "look-back is for the source tags", remedy, value.line)
    if not (text.isascii() and text.isdigit() and int(text) <= MAX_LOOK_BACK):
        remedy = f"write a number of time buckets, from 0 to {MAX_LOOK_BACK}"
        raise error_in(file, f"the look-back {text!r} cannot be used", remedy, value.line)
    return int(text)


def _directory(file: Path, text: str, line: int) -> str:
    if "@" in text and urlsplit(text).password is not None:
        # Not repeated: the error is logged.
        remedy = "leave user and password to Spark's own settings, and replace them"
        raise error_in(file, "the target has a password in it", remedy, line)
    if not text.isprintable() or ".." in text.split("/"):
        remedy = "write a directory, or a URI such as `hdfs://name/directory`, in one line"
        raise error_in(file, f"the target {text!r} is not a directory's name", remedy, line)
    return text
