"""The decoders that run in Python, without Spark, on the vectors of the Spark tests."""

from __future__ import annotations

import base64
import json
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest

from tests.unit.project import decoder_payloads as sample
from tidemark.project.decoding.jackson import jackson_cbor, jackson_json
from tidemark.project.decoding.json_text import Translator, to_json
from tidemark.project.decoding.protobuf import Protobuf
from tidemark.project.decoding.python_function import PythonFunction
from tidemark.project.definition.user_modules import sources_in


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    (tmp_path / "decoders.py").write_text(sample.MODULE)
    (tmp_path / "prices.py").write_text("CENTS = 100\n")
    return tmp_path


def function(directory: Path, name: str) -> PythonFunction:
    return PythonFunction(sources_in(directory), "decoders", name, frozenset({"delay"}))


def outcome(text: str | None, cause: str | None) -> Any:
    """Return the declared fields that are not null, as the JVM reads them, or the cause."""
    if text is None:
        return cause
    fields = json.loads(text, parse_float=Decimal)
    return {
        name: base64.b64decode(value) if name == "raw" else value
        for name, value in fields.items()
        if value is not None and name != "other"
    }


def assert_outcomes(translator: Translator, vectors: list[tuple[bytes, Any]]) -> None:
    outcomes = [outcome(*row) for row in translator([payload for payload, _ in vectors])]
    assert outcomes == [expected for _, expected in vectors]


def test_jackson_json() -> None:
    assert_outcomes(jackson_json, sample.JACKSON_JSON)


def test_jackson_cbor() -> None:
    assert_outcomes(jackson_cbor, sample.JACKSON_CBOR)


def test_protobuf() -> None:
    names = frozenset({"kind", "delay", "raw"})
    assert_outcomes(Protobuf(sample.descriptor_set(), "acme.Fared", names), sample.PROTOBUFS)


def test_a_python_function_fails_for_its_poisoned_events_only(modules: Path) -> None:
    assert_outcomes(function(modules, "decode"), sample.PYTHON)
    assert_outcomes(function(modules, "decode"), sample.PYTHON[:2])


def test_a_python_function_may_return_a_frame(modules: Path) -> None:
    frames = [(b"5", {"kind": "a", "delay": 5}), (b"0", {"kind": "a"})]
    assert_outcomes(function(modules, "frame"), frames)


def test_a_python_function_may_return_nonsense(modules: Path) -> None:
    short = "short returned 0 rows for one event"
    assert_outcomes(function(modules, "short"), [(b"1", short), (b"2", short)])
    nonsense = [
        (b"0", "odd returned Odd, not a dict"),
        (b"1", "TypeError: a value of type Odd has no form in JSON"),
        (b"2", {"kind": "good"}),
    ]
    assert_outcomes(function(modules, "odd"), nonsense)


def test_modules_may_be_packages_that_import_each_other(tmp_path: Path) -> None:
    package = tmp_path / "acme" / "fares"
    package.mkdir(parents=True)
    (tmp_path / "acme" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("from acme.fares.parts import KIND\n")
    (package / "parts.py").write_text("KIND = 'fared'\n")
    sources = sources_in(tmp_path)
    assert sorted(sources.modules) == ["acme", "acme.fares", "acme.fares.parts"]
    assert sources.load("acme.fares").KIND == "fared"


def test_a_module_that_nobody_imports_need_not_be_one(tmp_path: Path) -> None:
    (tmp_path / "parts_of_a_test.py").write_text("KIND = 'fared'\n")
    (tmp_path / "broken.py").write_bytes(b"\xff(")
    sources = sources_in(tmp_path)
    assert sources.load("parts_of_a_test").KIND == "fared"
    with pytest.raises(SyntaxError) as refused:
        sources.load("broken")
    assert sources.line_of(refused.value) == " (broken.py:1)"


def test_changed_modules_are_imported_anew_and_leave_nothing_behind(tmp_path: Path) -> None:
    before = len(sys.meta_path)
    for kind in ("fared", "landed"):
        (tmp_path / "parts_of_a_test.py").write_text(f"KIND = {kind!r}\n")
        assert kind == sources_in(tmp_path).load("parts_of_a_test").KIND
    assert len(sys.meta_path) <= before + 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("12.10"), "12.1"),
        # More digits than a double has: Spark reads text into a DECIMAL with all of them.
        (Decimal("12345678901234567890.12"), '"12345678901234567890.12"'),
        (b"\x00\xff", '"AP8="'),
        (datetime(2013, 1, 1, 5, 15, tzinfo=UTC), '"2013-01-01T05:15:00+00:00"'),
        (pd.Timestamp("2013-01-01 05:15"), '"2013-01-01T05:15:00"'),
        (date(2013, 1, 1), '"2013-01-01"'),
        (np.int64(3), "3"),
        (np.array([1, 2]), "[1,2]"),
        (frozenset({1}), "[1]"),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (pd.NA, "null"),
        (pd.NaT, "null"),
    ],
)
def test_values_get_the_form_in_which_spark_reads_them(value: object, text: str) -> None:
    assert to_json({"a": value}) == f'{{"a":{text}}}'
