"""Headers of any content, in YAML and in Python, broken anywhere, or in the old form."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator

from tests import schemas
from tests.repository import REPOSITORY
from tidemark.errors import DefinitionError
from tidemark.project.definition.file import read
from tidemark.project.definition.header import ProjectionHeader
from tidemark.user_files.header import Header
from tidemark.user_files.python_file import read_python_file
from tidemark.user_files.sql_file import read_sql_file

ANY = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SCHEMA = Draft202012Validator(schemas.schema(ProjectionHeader))
TEXT = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters="\ufeff") | st.just(" "),
    min_size=1,
    max_size=12,
).filter(lambda text: text == text.strip())
NAME = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,9}", fullmatch=True)
NAMES = st.lists(TEXT, min_size=1, max_size=4, unique=True)
SELECTOR: st.SearchStrategy[Any] = st.just({}) | st.fixed_dictionaries(
    {"serializer-id": st.integers(-(2**31), 2**31 - 1)}, optional={"manifest": st.just("") | TEXT}
)
KIND: st.SearchStrategy[Any] = st.sampled_from(
    [
        {"kind": "jackson-cbor"},
        {"kind": "bytes", "field": "raw"},
        {"kind": "avro", "schema": "a b.avsc"},
        {"kind": "protobuf", "descriptors": "a.desc", "message": "acme.Fared"},
        {"kind": "python", "function": "a.b:c"},
    ]
)
RULE: st.SearchStrategy[Any] = st.sampled_from(["json", "string", "skip", "fail"]) | st.tuples(
    SELECTOR, KIND
).map(lambda both: both[0] | both[1])
BLOCKING: st.SearchStrategy[Any] = st.one_of(
    TEXT, st.fixed_dictionaries({"not-null": TEXT}), st.fixed_dictionaries({"unique": NAMES})
)
HEADERS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {
        "name": NAME,
        "version": st.integers(1, 999),
        "source": st.just("messages")
        | st.fixed_dictionaries({"tags": NAMES})
        | st.fixed_dictionaries({"persistence-ids": NAMES}),
        "mode": st.sampled_from(["bucket", "upsert", "fold", "append", "export"]),
        "target": TEXT,
        "event": TEXT,
    },
    optional={
        "start": st.sampled_from(["first-event", "snapshot"]),
        "from": st.sampled_from(["2026-01-01", "2026-01-01T06:00Z"]),
        "decoders": st.lists(RULE, min_size=1, max_size=4),
        "on-error": st.sampled_from(
            ["fail", {"strategy": "retry-and-skip", "retries": 3, "retry-delay": "200 ms"}]
        ),
        "state": TEXT,
        "accept-sequence-number-reset-after": st.sampled_from(["off", "10 s", "2h"]),
        "look-back": st.integers(0, 10_000),
        "checks": st.lists(BLOCKING | st.fixed_dictionaries({"warn": BLOCKING}), max_size=4),
        "release": st.sampled_from(["in-place", "blue-green"]),
        "key": st.lists(NAME, min_size=1, max_size=4, unique=True),
    },
)
GOOD = """\
/*---
name: punctuality
version: 2
source: {tags: [JFK, LGA]}
mode: bucket
target: flights.punctuality
event: kind STRING,
       dep_delay INT
decoders:
  - {serializer-id: 31, kind: jackson-json}
  - string
on-error: skip
checks: [a > 1, {warn: {unique: [a]}}, not-null: b]
key: [a, b]
---*/

SELECT a, b FROM events
"""


def from_sql(directory: Path, header: str) -> Header:
    file = directory / "any.sql"
    file.write_text(f"/*---\n{header}---*/\nSELECT 1\n")
    return read_sql_file(file).header


def from_python(directory: Path, header: dict[str, Any]) -> Header:
    file = directory / "any.py"
    arguments = "".join(
        f"    {key.replace('-', '_').replace('from', 'from_')}={value!r},\n"
        for key, value in header.items()
    )
    file.write_text(f"@projection(\n{arguments})\ndef any(events): ...\n")
    return read_python_file(file).header


@ANY
@given(HEADERS, st.sampled_from([None, True, False]), st.sampled_from([20, 1000]))
def test_a_header_means_the_same_however_it_is_written(
    tmp_path: Path, header: dict[str, Any], flow: bool | None, width: int
) -> None:
    written = yaml.safe_dump(header, default_flow_style=flow, width=width, allow_unicode=True)
    read_again = from_sql(tmp_path, written).checked(ProjectionHeader)
    assert read_again == ProjectionHeader.model_validate(header)
    assert read_again == from_python(tmp_path, header).checked(ProjectionHeader)


@ANY
@given(HEADERS)
def test_editors_accept_what_is_accepted(header: dict[str, Any]) -> None:
    SCHEMA.validate(header)


@pytest.mark.parametrize("name", schemas.FORMS)
def test_the_published_schemas_are_those_of_the_code(name: str) -> None:
    expected = schemas.text(schemas.FORMS[name])
    assert (schemas.DIRECTORY / name).read_text() == expected, "run `make schemas`"
    Draft202012Validator.check_schema(json.loads(expected))


def test_the_shipped_definitions_fit_the_published_schema() -> None:
    files = sorted((REPOSITORY / "include" / "sql").glob("*s/*.sql"))
    assert files
    for file in files:
        SCHEMA.validate(yaml.safe_load(file.read_text().split("---")[1]))


PIECES = st.text(max_size=6) | st.sampled_from(
    ["\n", "\t", ": ", "- ", "&a ", "*a", "!!int ", "{", "}", "[", "]", "'", '"', "|", ">", "#",
     "---", "---*/", "/*---", "---\n", "...\n", "? ", "<<: ", "%YAML 9\n", "\x00", "\x85", "\ufeff",
     '"\\ud83d"', '"\\UFFFFFFFF"', f"%YAML {9 * '9' * 600}.1\n"]
)  # fmt: skip


@settings(ANY, max_examples=300)
@given(st.data())
@pytest.mark.parametrize("text", [GOOD, None], ids=["yaml", "python"])
def test_a_file_that_is_broken_anywhere_is_read_or_refused_with_its_line(
    tmp_path: Path, text: str | None, data: st.DataObject
) -> None:
    file = tmp_path / ("bad.py" if text is None else "bad.sql")
    text = text or (REPOSITORY / "include/projections/examples/aircraft_use.py").read_text()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    file.write_bytes((text[:start] + data.draw(PIECES) + text[end:]).encode("utf-8", "replace"))
    refused = refusal_of(file)
    if refused is not None:
        place = re.fullmatch(rf"{re.escape(str(file))}:(\d+)(:\d+)?", refused.where)
        assert place is not None, refused
        assert 1 <= int(place[1]) <= file.read_bytes().decode().count("\n") + 2


def refusal_of(file: Path) -> DefinitionError | None:
    try:
        read(file)
    except DefinitionError as error:
        return error
    return None
