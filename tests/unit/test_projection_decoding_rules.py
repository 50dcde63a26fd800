"""The header `decoder:`: what is read from good ones, and what is said about bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.errors import DefinitionError
from tidemark.projection.definition import decoder as rules
from tidemark.projection.definition.decoder import FORM, Kind
from tidemark.projection.definition.file import read
from tidemark.projection.definition.model import Definition

HEADER = """\
-- name: fares
-- version: 1
-- source: messages
-- mode: bucket
-- target: flights.fares
-- event: kind STRING{decoder}
SELECT time_bucket FROM events
"""
INT32 = "write a whole number from -2147483648 to 2147483647"
KINDS = (
    "known are json, jackson-json, jackson-cbor, string, bytes, avro, protobuf, python, skip, fail"
)
Rule = tuple[int | None, str | None, str, tuple[str, ...]]


def definition(directory: Path, decoder: str | None) -> Definition:
    file = directory / "fares.sql"
    text = "" if decoder is None else f"\n-- decoder: {decoder}"
    file.write_text(HEADER.format(decoder=text))
    return read(file)


def parsed(directory: Path, decoder: str | None) -> list[Rule]:
    return [
        (rule.serializer_id, rule.manifest, str(rule.kind), rule.arguments)
        for rule in definition(directory, decoder).decoders
    ]


def test_without_the_header_every_payload_is_json(tmp_path: Path) -> None:
    assert parsed(tmp_path, None) == [(None, None, "json", ())]
    assert rules.is_plain_json(definition(tmp_path, None).decoders)
    assert not rules.is_plain_json(definition(tmp_path, "33 json").decoders)
    assert not rules.is_plain_json(definition(tmp_path, "jackson-json").decoders)


def test_rules_are_read_in_their_order_with_their_places(tmp_path: Path) -> None:
    for name in ("fared.avsc", "all of it.desc", "decoders.py"):
        (tmp_path / name).write_text("")
    text = """31 jackson-json, 33/com.acme.Fared#2 jackson-cbor,
--   33/com.acme.Outer$Landed  jackson-cbor , 20 string kind, 4 bytes,
--   -7/'it''s, here' avro fared.avsc, 1002/'' protobuf 'all of it.desc' acme.Fared,
--   1003 python decoders:decode, 25 skip, fail"""
    assert parsed(tmp_path, text) == [
        (31, None, "jackson-json", ()),
        (33, "com.acme.Fared#2", "jackson-cbor", ()),
        (33, "com.acme.Outer$Landed", "jackson-cbor", ()),
        (20, None, "string", ("kind",)),
        (4, None, "bytes", ()),
        (-7, "it's, here", "avro", ("fared.avsc",)),
        (1002, "", "protobuf", ("all of it.desc", "acme.Fared")),
        (1003, None, "python", ("decoders:decode",)),
        (25, None, "skip", ()),
        (None, None, "fail", ()),
    ]
    places = [(rule.line, rule.column) for rule in definition(tmp_path, text).decoders]
    lines = (tmp_path / "fares.sql").read_text().splitlines()
    starts = ("31", "33/", "33/", "20", "4 ", "-7", "1002", "1003", "25", "fail")
    assert [lines[line - 1][column - 1 :][: len(start)] for (line, column), start in zip(
        places, starts, strict=True
    )] == list(starts)  # fmt: skip


@pytest.mark.parametrize(
    ("decoder", "place", "what", "do"),
    [
        ("", "7", "the header decoder is empty", "add a line such as `-- decoder: json`"),
        ("jsn", "7:13", "unknown decoder 'jsn'", KINDS),
        ("33 json, 31 jsn", "7:25", "unknown decoder 'jsn'", KINDS),
        ("com.acme.Fared json", "7:13", "unknown decoder 'com.acme.Fared'", KINDS),
        ("33 json,", "7:21", "a rule is empty", FORM),
        ("33 json,, json", "7:21", "a rule is empty", FORM),
        (",json", "7:13", "a rule is empty", FORM),
        ("31 json,\n--   33", "8:6", "the rule for 33 names no decoder", FORM),
        ("33/com.acme.Fared", "7:13", "the rule for 33/com.acme.Fared names no decoder", FORM),
        ("2147483648 json", "7:13", "the serializer id '2147483648' cannot be used", INT32),
        ("1e3 json", "7:13", "the serializer id '1e3' cannot be used", INT32),
        (
            "20/ string",
            "7:13",
            "the manifest after 20/ is missing",
            "leave out the /, or write 20/'' for events without a manifest",
        ),
        ("20/'a string", "7:16", "a quote is not closed", "close it with '"),
        ("1 json x", "7:15", "json cannot be used with x", "write `json`"),
        ("1 string a b", "7:15", "string cannot be used with a b", "write `string [field]`"),
        ("1 avro", "7:15", "avro cannot be used with nothing", "write `avro schema.avsc`"),
        (
            "1 protobuf a.desc",
            "7:15",
            "protobuf cannot be used with a.desc",
            "write `protobuf descriptors.desc package.Message`",
        ),
        (
            "1 python decoders.decode",
            "7:15",
            "'decoders.decode' does not name a function",
            "write `python module:function`",
        ),
        (
            "33 json, 33/x skip",
            "7:22",
            "no event reaches this rule: that of 7:13 takes them all",
            "put the narrower rule first, or drop one",
        ),
        (
            "json,\n-- 33 string",
            "8:4",
            "not a header: '-- 33 string'",
            "write `-- key: value`; comments belong below the first line without --",
        ),
        (
            "json,\n--  33 string",
            "8:5",
            "no event reaches this rule: that of 7:13 takes them all",
            "put the narrower rule first, or drop one",
        ),
        (
            "1/a json, 1/b json, 1/a skip",
            "7:33",
            "no event reaches this rule: that of 7:13 takes them all",
            "put the narrower rule first, or drop one",
        ),
        (
            "1 avro no.avsc",
            "7:13",
            "there is no file {directory}/no.avsc",
            "name it relative to the definition's own file",
        ),
        (
            "1 protobuf no.desc acme.Fared",
            "7:13",
            "there is no file {directory}/no.desc",
            "name it relative to the definition's own file",
        ),
        (
            "1 python no.such:decode",
            "7:13",
            "there is no module no.such",
            f"put the module beside the definition or into {rules.MODULES_DIR}",
        ),
    ],
)
def test_a_bad_header_is_refused_in_one_line(
    tmp_path: Path, decoder: str, place: str, what: str, do: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        definition(tmp_path, decoder)
    where = f"{tmp_path / 'fares.sql'}:{place}"
    if what.startswith("not a header"):
        where = where.rpartition(":")[0]
    assert str(refused.value) == f"{what.format(directory=tmp_path)} ({where}); {do}"


def test_modules_are_also_found_in_their_own_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    (shared / "acme").mkdir(parents=True)
    (shared / "acme" / "__init__.py").write_text("")
    monkeypatch.setattr(rules, "MODULES_DIR", shared)
    (rule,) = definition(tmp_path, "python acme:decode").decoders
    assert (rule.kind, rule.path) == (Kind.PYTHON, shared / "acme" / "__init__.py")


def test_the_fingerprint_changes_with_the_files_that_a_decoder_names(tmp_path: Path) -> None:
    schema = tmp_path / "fared.avsc"
    schema.write_text("{}")
    first = definition(tmp_path, "avro fared.avsc").fingerprint
    assert definition(tmp_path, "avro fared.avsc").fingerprint == first
    schema.write_text("{ }")
    assert definition(tmp_path, "avro fared.avsc").fingerprint != first
