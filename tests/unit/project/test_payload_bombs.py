"""Small payloads that stand for much: each is unreadable, and the payloads beside it are read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.project import decoder_payloads as sample
from tidemark.project.decoding import decode, jackson, json_text
from tidemark.project.decoding.jackson import LZ4_MAGIC, jackson_cbor, jackson_json
from tidemark.project.decoding.json_text import Translation, Translator, UnreadablePayload, to_json
from tidemark.project.decoding.protobuf import Protobuf
from tidemark.project.decoding.python_function import PythonFunction
from tidemark.project.definition.user_modules import sources_in

_MAP_OF_A = bytes.fromhex("a1 6161")
TOO_MUCH = "more than 67,108,864 characters of JSON"
TOO_LONG = "a number of more than 1,000 digits"


def head(major: int, number: int) -> bytes:
    """Return the head of a CBOR item: its major type and a number of four bytes."""
    return bytes([major << 5 | 26]) + number.to_bytes(4, "big")


def diamond(depth: int) -> bytes:
    """Return a CBOR map of lists that hold their successor twice, by shared values."""
    shared, same = bytes.fromhex("d81c"), bytes.fromhex("d81d")
    content = b"\x80"
    for level in reversed(range(depth)):
        content = b"\x82" + shared + content + same + head(0, level)
    return _MAP_OF_A + content


def referenced_strings(length: int, number: int) -> bytes:
    """Return a CBOR map of one list: a string, and then references to it."""
    namespace, reference = bytes.fromhex("d90100"), bytes.fromhex("d81900")
    text = head(3, length) + b"x" * length
    return namespace + b"\xa1\x61a" + head(4, number) + text + reference * (number - 1)


def bignum(size: int) -> bytes:
    """Return a CBOR integer of this many bytes."""
    return b"\xc2" + head(2, size) + b"\xff" * size


def decimal_fraction(exponent: int, mantissa: bytes, tag: int = 4) -> bytes:
    """Return a CBOR map of a decimal fraction, or of a bigfloat with tag 5."""
    return _MAP_OF_A + bytes([0xC0 | tag, 0x82]) + cbor2.dumps(exponent) + mantissa


def lz4(content: bytes) -> bytes:
    """Compress as Pekko does."""
    block: bytes = pa.Codec("lz4_raw").compress(content, asbytes=True)
    return LZ4_MAGIC + len(content).to_bytes(4, "big") + block


def translated(translator: Translator, *payloads: bytes) -> list[Translation]:
    return list(translator(payloads))


def assert_only_the_bomb_is_unreadable(
    translator: Translator, healthy: bytes, bomb: bytes, cause: str
) -> None:
    first, (text, why), last = translated(translator, healthy, bomb, healthy)
    assert text is None
    assert why == cause
    assert first == last
    assert first[0] is not None


@pytest.mark.parametrize(
    ("bomb", "cause"),
    [
        pytest.param(diamond(26), TOO_MUCH, id="shared values"),
        pytest.param(diamond(390), TOO_MUCH, id="as many shared values as may be nested"),
        pytest.param(referenced_strings(10_000, 10_000), TOO_MUCH, id="strings by reference"),
        pytest.param(_MAP_OF_A + bignum(416), TOO_LONG, id="integer"),
        pytest.param(_MAP_OF_A + b"\xc3" + bignum(500)[1:], TOO_LONG, id="negative integer"),
        pytest.param(
            decimal_fraction(-2, bignum(20_000)), TOO_LONG, id="digits of a decimal fraction"
        ),
        pytest.param(decimal_fraction(-2, bignum(20_000), 5), TOO_LONG, id="digits of a bigfloat"),
        pytest.param(
            decimal_fraction(1000, b"\x05"), "a number with an exponent beyond 999", id="exponent"
        ),
        pytest.param(
            decimal_fraction(-100_000_000, b"\x05"),
            "a number with an exponent beyond 999",
            id="negative exponent",
        ),
        pytest.param(
            decimal_fraction(100_000, b"\x05", 5),
            "a number with an exponent beyond 999",
            id="exponent of a bigfloat",
        ),
        pytest.param(
            _MAP_OF_A + bytes.fromhex("d81e 82") + bignum(40_000) + bignum(39_999),
            TOO_LONG,
            id="ratio of long numbers",
        ),
        pytest.param(
            _MAP_OF_A + bytes.fromhex("d823 63") + b"a+b",
            "a ratio, a regular expression or a MIME message has no form in JSON",
            id="regular expression",
        ),
        pytest.param(
            gzip.compress(_MAP_OF_A + head(4, 2**24) + bytes(2**24)),
            "its content has more than 16,777,216 bytes",
            id="gzip",
        ),
        pytest.param(
            lz4(_MAP_OF_A + head(4, 2**24) + bytes(2**24)),
            "its content has more than 16,777,216 bytes",
            id="LZ4",
        ),
    ],
)
def test_cbor(bomb: bytes, cause: str) -> None:
    assert_only_the_bomb_is_unreadable(jackson_cbor, sample.CBOR, bomb, cause)


def test_cbor_whose_shared_values_are_few_is_read() -> None:
    [(text, cause)] = translated(jackson_cbor, diamond(3))
    assert (text, cause) == ('{"a":[[[[],[]],[[],[]]],[[[],[]],[[],[]]]]}', None)
    [(text, cause)] = translated(jackson_cbor, referenced_strings(3, 2))
    assert (text, cause) == ('{"a":["xxx","xxx"]}', None)


def test_cbor_in_which_a_value_contains_itself_is_unreadable() -> None:
    itself = _MAP_OF_A + bytes.fromhex("d81c 82 d81d00 d81d00")
    assert_only_the_bomb_is_unreadable(
        jackson_cbor, sample.CBOR, itself, "a value that contains itself"
    )


@pytest.mark.parametrize("compress", [gzip.compress, lz4])
def test_compressed_json(compress: Any) -> None:
    bomb = compress(b'{"kind":"' + b"x" * 2**26 + b'"}')
    assert len(bomb) < 2**19
    assert_only_the_bomb_is_unreadable(
        jackson_json, sample.JSON, bomb, "its content has more than 67,108,864 bytes"
    )


def test_lz4_makes_no_room_for_what_its_header_claims() -> None:
    bomb = LZ4_MAGIC + (2**32 - 1).to_bytes(4, "big") + bytes(2**24 + 2**17)
    [(_, cause)] = translated(jackson_json, bomb)
    assert cause == "its content has more than 67,108,864 bytes"


def test_protobuf_whose_messages_are_empty() -> None:
    """Two bytes on the wire are a message of all its fields as JSON."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="acme", syntax="proto3")
    line = file.message_type.add(name="Line")
    for number in range(1, 41):
        line.field.add(
            name=f"quantity_{number}",
            number=number,
            type=field.TYPE_INT32,
            label=field.LABEL_OPTIONAL,
        )
    order = file.message_type.add(name="Order")
    order.field.add(
        name="lines",
        number=1,
        type=field.TYPE_MESSAGE,
        type_name=".acme.Line",
        label=field.LABEL_REPEATED,
    )
    descriptors = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    translator = Protobuf(descriptors, "acme.Order", frozenset({"lines"}))
    assert_only_the_bomb_is_unreadable(translator, b"\x0a\x00", b"\x0a\x00" * 200_000, TOO_MUCH)


FUNCTIONS = """\
from decimal import Decimal

import numpy as np


def decode(payloads):
    return payloads.map(decoded)


def decoded(payload):
    value = eval(payload)
    return {"value": value}


def nest(depth):
    value = []
    for _ in range(depth):
        value = [value, value]
    return value
"""


@pytest.mark.parametrize(
    ("bomb", "cause"),
    [
        (b"nest(26)", TOO_MUCH),
        (b"['x' * 1000] * 100_000", TOO_MUCH),
        (b"['\\u00e9' * 1000] * 20_000", TOO_MUCH),
        (b"[b'x' * 1000] * 100_000", TOO_MUCH),
        (b"[10 ** 999] * 100_000", TOO_MUCH),
        (b"[Decimal('9' * 999)] * 100_000", TOO_MUCH),
        (b"[np.zeros(10_000)] * 10_000", TOO_MUCH),
        (b"{'x' * 1000 + str(i): 1 for i in range(70_000)}", TOO_MUCH),
        (b"10 ** 1_000_000", TOO_LONG),
        (b"-(10 ** 1000)", TOO_LONG),
        (b"Decimal('9' * 1_000_000)", TOO_LONG),
        (b"Decimal('1e600000000')", "a number with an exponent beyond 999"),
        (b"Decimal('-1e-600000000')", "a number with an exponent beyond 999"),
    ],
)
def test_result_of_a_python_function(tmp_path: Path, bomb: bytes, cause: str) -> None:
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    translator = PythonFunction(sources_in(tmp_path), "functions", "decode", frozenset())
    assert_only_the_bomb_is_unreadable(translator, b"1", bomb, cause)


def test_a_lack_of_memory_is_of_its_event(tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(
        "def decode(payloads):\n    return payloads.map(decoded)\n\n\n"
        "def decoded(payload):\n    if payload == b'much':\n        raise MemoryError\n"
        "    return {'value': 1}\n"
    )
    translator = PythonFunction(sources_in(tmp_path), "functions", "decode", frozenset())
    assert_only_the_bomb_is_unreadable(
        translator, b"1", b"much", "it takes more memory than a Python worker has"
    )


class Copies(list[Any]):
    """The same value several times, as by references; hypothesis bears no long texts of values."""

    def __init__(self, value: Any, number: int) -> None:
        super().__init__([value] * number)

    def __repr__(self) -> str:
        return f"[{self[0]!r}] * {len(self)}" if self else "[]"


_SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False),
    st.datetimes(),
    st.uuids(),
    st.just(pd.NA),
    st.builds(np.array, st.lists(st.integers(0, 9))),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(st.text(), inner),
        st.builds(Copies, inner, st.integers(0, 20)),
    ),
)


@given(st.dictionaries(st.text(), _VALUES), st.integers(2, 200))
def test_text_is_never_longer_than_the_bound(fields: dict[str, Any], most: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        whole = _text(fields)
        patched.setattr(json_text, "MOST_TEXT", most)
        bounded = _text(fields)
    if whole is not None and len(whole) <= most:
        assert bounded == whole
    else:
        assert bounded is None


def _text(fields: dict[str, Any]) -> str | None:
    try:
        return to_json(fields)
    except UnreadablePayload:
        return None


@given(st.binary(max_size=2000), st.integers(0, 3000), st.integers(1, 2000))
def test_content_is_never_longer_than_the_bound(seed: bytes, zeros: int, most: int) -> None:
    content = seed + bytes(zeros)
    for compress in (gzip.compress, lz4):
        if len(content) <= most:
            assert jackson.decompressed(compress(content), most) == content or not content
        else:
            with pytest.raises(UnreadablePayload):
                jackson.decompressed(compress(content), most)


def test_a_worker_hands_texts_on_before_the_rest_of_the_batch_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[bytes] = []

    def translator(payloads: Sequence[bytes]) -> Iterator[Translation]:
        for payload in payloads:
            made.append(payload)
            yield payload.decode(), None

    monkeypatch.setattr(decode, "CHUNK_CHARACTERS", 100)
    payloads = pd.Series([b"x" * 40, None, b"y" * 40, b"z" * 40, b"", b"w" * 500, b"v"])
    translations = decode._translations({7: translator}, payloads, pd.Series([7] * 7))
    frames = decode._frames(translations)
    assert next(frames)["json"].tolist() == ["x" * 40, None, "y" * 40, "z" * 40]
    assert len(made) == 3
    assert [frame["json"].tolist() for frame in frames] == [["", "w" * 500], ["v"]]


def test_numbers_at_the_bound_are_read() -> None:
    values = [10**1000 - 1, Decimal("9" * 1000), Decimal("1e999"), Decimal("1.5e-999")]
    written = json.loads(to_json({"a": values}))["a"]
    assert written == [10**1000 - 1, "9" * 1000, "1E+999", "1.5E-999"]
