"""new: a first definition of a projection, with its table and its test, to be changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import NamedTuple

from tidemark.errors import InvalidInput
from tidemark.projection.definition.model import Mode
from tidemark.settings import Settings

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")
_TARGET = re.compile(rf"{_NAME.pattern}\.{_NAME.pattern}")
Say = Callable[[str], None]


class _Form(NamedTuple):
    """The texts of a mode: the definition's body, the columns of its table, and the test's rows."""

    body: str
    columns: str
    expected: str


_SQL = """/*---
name: $name
version: 1
source: messages
mode: $mode
target: $target
event: kind STRING
---*/

-- Declare in `event` the fields of the payload that you need.
$body
"""

_FOLD = """from __future__ import annotations

from typing import Any

import pandas as pd

from tidemark.projection import projection


@projection(
    name="$name",
    version=1,
    source="messages",
    mode="fold",
    target="$target",
    event="kind STRING",
    state="events BIGINT, last_kind STRING",
)
def $name(state: dict[str, Any] | None, events: pd.DataFrame) -> dict[str, Any]:
    # The next events of a persistence id, in the order of their sequence nrs.
    before = state or {"events": 0}
    return {"events": before["events"] + len(events), "last_kind": events["kind"].iloc[-1]}
"""

_TEST = """from __future__ import annotations

from pathlib import Path

from tidemark.projection.testing import run_projection

DEFINITION = Path(__file__).with_name("$file")
AT = "2026-01-01T00:00:0{}Z"


def event(number: int, kind: str) -> dict[str, object]:
    key = {"persistence_id": "order|1", "sequence_nr": number, "timestamp": AT.format(number)}
    return {**key, "kind": kind}


def test_$name() -> None:
    rows = run_projection(DEFINITION, [event(1, "placed"), event(2, "paid"), event(3, "placed")])
    chosen = [{name: row[name] for name in row if not name.endswith("at")} for row in rows]
    assert sorted(chosen, key=str) == $expected
"""

_OF_EVENTS = """SELECT persistence_id, sequence_nr, timestamp AS happened_at, kind
FROM events"""
_COUNTED = """SELECT time_bucket, kind, count(*) AS events
FROM events
GROUP BY time_bucket, kind"""
_COUNTS = """[
        {"time_bucket": 1767225600000, "kind": "paid", "events": 1},
        {"time_bucket": 1767225600000, "kind": "placed", "events": 2},
    ]"""
_FORMS = {
    Mode.BUCKET: _Form(
        _COUNTED,
        "    time_bucket bigint,\n    kind text,\n    events bigint,\n"
        "    PRIMARY KEY ((time_bucket), kind)",
        _COUNTS,
    ),
    Mode.UPSERT: _Form(
        _OF_EVENTS,
        "    persistence_id text PRIMARY KEY,\n    sequence_nr bigint,\n"
        "    happened_at timestamp,\n    kind text",
        '[{"persistence_id": "order|1", "sequence_nr": 3, "kind": "placed"}]',
    ),
    Mode.APPEND: _Form(
        _OF_EVENTS,
        "    persistence_id text,\n    sequence_nr bigint,\n    happened_at timestamp,\n"
        "    kind text,\n    PRIMARY KEY ((persistence_id), sequence_nr)",
        """[
        {"persistence_id": "order|1", "sequence_nr": 1, "kind": "placed"},
        {"persistence_id": "order|1", "sequence_nr": 2, "kind": "paid"},
        {"persistence_id": "order|1", "sequence_nr": 3, "kind": "placed"},
    ]""",
    ),
    Mode.FOLD: _Form(
        "",
        "    persistence_id text PRIMARY KEY,\n    sequence_nr bigint,\n    events bigint,\n"
        "    last_kind text",
        '[{"persistence_id": "order|1", "sequence_nr": 3, "events": 3, "last_kind": "placed"}]',
    ),
    Mode.EXPORT: _Form(_COUNTED, "", _COUNTS),
}


def write(name: str, mode: Mode, target: str | None, say: Say) -> None:
    """Write the files of a new projection into the projections' directory.

    Args:
        name: of the projection.
        mode: how its result is stored.
        target: `keyspace.table`; `read_models.<name>` by default. In mode export a directory.
        say: is told what was written, and what to do next.

    Raises:
        InvalidInput: the name, the mode or the target cannot be used, or a file is there already.
    """
    if not _NAME.fullmatch(name):
        what = "letters, digits and _, a letter first, at most 48"
        raise InvalidInput(f"the name {name!r} cannot be used", where="NAME", do=f"use {what}")
    if mode is Mode.ROLLUP:
        raise InvalidInput(
            "mode rollup has no template: it reads the read model of a projection that you have",
            where="--mode",
            do="write the file by the example of docs/projection-modes.md",
        )
    is_table = mode is not Mode.EXPORT
    place = target or (f"read_models.{name}" if is_table else name)
    if is_table and not _TARGET.fullmatch(place):
        raise InvalidInput(
            f"the target {place!r} is no table", where="--target", do="write keyspace.table"
        )
    files = _files(name, mode, place)
    directory = Settings.load().projections_dir
    if not directory.is_dir():
        raise InvalidInput(
            f"there is no directory {directory}", where="TIDEMARK_PROJECTIONS_DIR", do="make it"
        )
    there = [file for file in files if (directory / file).exists()]
    if there:
        raise InvalidInput(
            f"there already: {', '.join(there)}", where=str(directory), do="choose another name"
        )
    for file, text in files.items():
        (directory / file).write_text(text)
        say(f"wrote {directory / file}")
    for line in _next_steps(directory, name, list(files)):
        say(line)


def _files(name: str, mode: Mode, target: str) -> dict[str, str]:
    form = _FORMS[mode]
    definition = f"{name}.py" if mode is Mode.FOLD else f"{name}.sql"
    words = {"name": name, "mode": mode.value, "target": target, "body": form.body}
    words |= {"file": definition, "expected": form.expected}
    template = _FOLD if mode is Mode.FOLD else _SQL
    files = {definition: Template(template).substitute(words)}
    if form.columns:
        files[f"{name}.cql"] = f"CREATE TABLE {target} (\n{form.columns}\n);\n"
    files[f"test_{name}.py"] = Template(_TEST).substitute(words)
    return files


def _next_steps(directory: Path, name: str, files: list[str]) -> list[str]:
    window = "--window-start 2013-01-08 --window-end 2013-02-01"
    run = f"spark_apps/project.py --projection {name} {window}"
    table = [f"  make cql ARGS='-f {directory / file}'" for file in files if file.endswith(".cql")]
    return [
        "next, over a window of your own:",
        f"  .venv/bin/python -m pytest {directory / f'test_{name}.py'}",
        f"  .venv/bin/python {run} --dry-run --show",
        *table,
        f"  .venv/bin/python {run}",
    ]
