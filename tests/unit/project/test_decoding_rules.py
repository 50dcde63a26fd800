"""The key `decoders`: the rules read from it, and the error messages about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.errors import DefinitionError
from tidemark.project.definition import decoder as rules
from tidemark.project.definition.decoder import DecoderKind
from tidemark.project.definition.file import read
from tidemark.project.definition.model import Definition

HEADER = """\
/*---
name: fares
version: 1
source: messages
mode: bucket
target: flights.fares
event: kind STRING{decoders}
---*/
SELECT time_bucket FROM events
"""
WORDS = "write 'json', 'jackson-json', 'jackson-cbor', 'string', 'bytes', 'skip' or 'fail'"
KINDS = (
    "write a kind such as 'json', 'jackson-json', 'jackson-cbor', 'skip', 'fail', 'string',"
    " 'bytes', 'avro', 'protobuf', 'python'"
)
SUCH_AS = (
    ", such as `decoders: [{serializer-id: 1003, kind: python, function: 'decoders:decode'}, json]`"
)
Rule = tuple[int | None, str | None, str, tuple[str, ...]]


def definition(directory: Path, decoders: str | None) -> Definition:
    file = directory / "fares.sql"
    text = "" if decoders is None else f"\ndecoders: {decoders}"
    file.write_text(HEADER.replace("{decoders}", text))
    return read(file)


def parsed(directory: Path, decoders: str | None) -> list[Rule]:
    return [
        (rule.serializer_id, rule.manifest, str(rule.kind), rule.arguments)
        for rule in definition(directory, decoders).decoders
    ]


def test_without_the_key_every_payload_is_json(tmp_path: Path) -> None:
    assert parsed(tmp_path, None) == [(None, None, "json", ())]
    assert rules.is_plain_json(definition(tmp_path, None).decoders)
    decoders = "[{serializer-id: 33, kind: json}]"
    assert not rules.is_plain_json(definition(tmp_path, decoders).decoders)
    assert not rules.is_plain_json(definition(tmp_path, "[jackson-json]").decoders)


def test_rules_are_read_in_their_order_with_their_places(tmp_path: Path) -> None:
    for name in ("fared.avsc", "all of it.desc", "decoders.py"):
        (tmp_path / name).write_text("")
    text = """
  - {serializer-id: 31, kind: jackson-json}
  - serializer-id: 33
    manifest: com.acme.Fared#2
    kind: jackson-cbor
  - {kind: string, serializer-id: 20, field: kind}
  - {serializer-id: 4, kind: bytes}
  - {serializer-id: -7, manifest: "it's, here", kind: avro, schema: fared.avsc}
  - serializer-id: 1002
    manifest: ''
    kind: protobuf
    descriptors: all of it.desc
    message: acme.Fared
  - {serializer-id: 1003, kind: python, function: decoders:decode}
  - {serializer-id: 25, kind: skip}
  - fail"""
    assert parsed(tmp_path, text) == [
        (31, None, "jackson-json", ()),
        (33, "com.acme.Fared#2", "jackson-cbor", ()),
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
    assert places == [
        (number, 5) for number, line in enumerate(lines, 1) if line.startswith("  - ")
    ]


@pytest.mark.parametrize(
    ("decoders", "place", "what", "do"),
    [
        ("", "8:10", "decoders is empty", "write a list"),
        ("[]", "8:11", "decoders is empty", "name at least one"),
        ("json", "8:11", "decoders cannot be 'json'", "write a list"),
        ("[jsn]", "8:12", "decoders cannot be 'jsn'", WORDS),
        ("[json, 33 json]", "8:18", "decoders cannot be '33 json'", WORDS),
        ("[{kind: jsn}]", "8:12", "decoders cannot be {'kind': 'jsn'}", KINDS),
        (
            "[{serializer-id: 1}]",
            "8:12",
            "decoders cannot be {'serializer-id': '1'}",
            "name its kind",
        ),
        ("[{serializer: 1, kind: json}]", "8:13", "unknown key serializer", "write serializer-id"),
        (
            "[{serializer-id: 2147483648, kind: json}]",
            "8:28",
            "serializer-id cannot be '2147483648'",
            "write at most 2147483647",
        ),
        (
            "[{serializer-id: 1e3, kind: json}]",
            "8:28",
            "serializer-id cannot be '1e3'",
            "write a whole number",
        ),
        (
            "[{kind: json, field: a}]",
            "8:25",
            "unknown key field",
            "known are serializer-id, manifest, kind",
        ),
        ("[{kind: avro}]", "8:12", "schema is missing", "add `schema: fared.avsc`"),
        (
            "[{kind: protobuf, descriptors: a.desc}]",
            "8:12",
            "message is missing",
            "add `message: acme.Fared`",
        ),
        (
            "[{kind: python, function: decoders.decode}]",
            "8:37",
            "function cannot be 'decoders.decode'",
            "write it in the right form",
        ),
        (
            "[{serializer-id: 33, kind: json}, {serializer-id: 33, manifest: x, kind: skip}]",
            "8:45",
            "no event reaches this rule: that of 8:12 takes them all",
            "put the narrower rule first, or drop one",
        ),
        (
            "\n- json\n- {serializer-id: 33, kind: string}",
            "10:3",
            "no event reaches this rule: that of 9:3 takes them all",
            "put the narrower rule first, or drop one",
        ),
        (
            "[{kind: avro, schema: no.avsc}]",
            "8:12",
            "there is no file {directory}/no.avsc",
            "name it relative to the definition's own file",
        ),
        (
            "[{kind: protobuf, descriptors: no.desc, message: acme.Fared}]",
            "8:12",
            "there is no file {directory}/no.desc",
            "name it relative to the definition's own file",
        ),
        (
            "[{kind: python, function: no.such:decode}]",
            "8:12",
            "there is no module no.such",
            f"put the module beside the definition or into {rules.MODULES_DIR}",
        ),
    ],
)
def test_bad_rules_are_refused_in_one_line(
    tmp_path: Path, decoders: str, place: str, what: str, do: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        definition(tmp_path, decoders)
    where = f"{tmp_path / 'fares.sql'}:{place}"
    assert refused.value.what == what.replace("{directory}", str(tmp_path))
    assert (refused.value.where, refused.value.do.removesuffix(SUCH_AS)) == (where, do)


def test_modules_are_also_found_in_their_own_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    (shared / "acme").mkdir(parents=True)
    (shared / "acme" / "__init__.py").write_text("")
    monkeypatch.setattr(rules, "MODULES_DIR", shared)
    (rule,) = definition(tmp_path, "[{kind: python, function: acme:decode}]").decoders
    assert (rule.kind, rule.path) == (DecoderKind.PYTHON, shared / "acme" / "__init__.py")


def test_the_fingerprint_changes_with_the_files_that_a_decoder_names(tmp_path: Path) -> None:
    schema = tmp_path / "fared.avsc"
    schema.write_text("{}")
    first = definition(tmp_path, "[{kind: avro, schema: fared.avsc}]").fingerprint
    assert definition(tmp_path, "[{kind: avro, schema: fared.avsc}]").fingerprint == first
    schema.write_text("{ }")
    assert definition(tmp_path, "[{kind: avro, schema: fared.avsc}]").fingerprint != first
