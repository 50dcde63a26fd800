"""Decodes payloads of Pekko's and Akka's Jackson serializers.

Source: pekko-serialization-jackson, JacksonSerializer.scala (`isGZipped`, `LZ4Meta`,
`decompress`): a payload that begins with the gzip magic number is gzip. A payload that begins with
the four bytes of LZ4_MAGIC has the length of its content in four more bytes, big endian, then one
LZ4 block. Both serializers can write both; everything else is not compressed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import cbor2
import pyarrow as pa

from tidemark.project.decoding import json_text
from tidemark.project.decoding.json_text import (
    MOST_DIGITS,
    Translation,
    UnreadablePayload,
    one_by_one,
    to_json,
    too_many_digits,
)

GZIP_MAGIC = bytes.fromhex("1f8b")
LZ4_MAGIC = bytes.fromhex("87d96df6")
MOST_CBOR = 16 * 2**20
"""Bytes of decompressed CBOR: one byte may be an empty map, which takes 72 bytes in Python. An
uncompressed event cannot exceed this in a Cassandra with default settings."""
_LZ4_HEADER = 8
_LZ4_BEST_RATIO = 255
"""A byte of an LZ4 block decompresses to 255 bytes at most."""
_POSITIVE, _NEGATIVE = 2, 3
_STRING_REFERENCE, _SHARED_REFERENCE = 25, 29
_RATIO, _REGULAR_EXPRESSION, _MIME = 30, 35, 36
_MOST_BIGNUM = (10**MOST_DIGITS).bit_length() // 8
"""Bytes; converting a number to decimal takes time quadratic in its bytes."""


def decompressed(payload: bytes, most: int) -> bytes:
    """Decompress a payload to at most `most` bytes; return an uncompressed payload unchanged.

    Raises:
        UnreadablePayload: the payload is damaged, or its content is longer than `most`.
    """
    if payload.startswith(GZIP_MAGIC):
        return _gunzipped(payload, most)
    if payload.startswith(LZ4_MAGIC):
        return _lz4_block(payload, most)
    return payload


def jackson_json(payloads: Sequence[bytes]) -> Iterator[Translation]:
    """Return the `Translator` of `jackson-json`."""
    return one_by_one(_json, payloads)


def jackson_cbor(payloads: Sequence[bytes]) -> Iterator[Translation]:
    """Return the `Translator` of `jackson-cbor`."""
    return one_by_one(_cbor, payloads)


def _json(payload: bytes) -> str:
    try:
        return decompressed(payload, json_text.MOST_TEXT).decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadablePayload("not UTF-8") from None


def _cbor(payload: bytes) -> str:
    content = decompressed(payload, MOST_CBOR)
    try:
        return _cbor_text(content, has_references=False)
    except _HasReferences:
        return _cbor_text(content, has_references=True)


def _cbor_text(content: bytes, *, has_references: bool) -> str:
    """Return a CBOR map as JSON text.

    Raises:
        UnreadablePayload: the content is not a readable CBOR map.
        _HasReferences: the content has references although `has_references` is false.
    """
    decoders = _BOUNDED if has_references else _BOUNDED | _REFERENCES
    try:
        fields = cbor2.loads(content, semantic_decoders=decoders)
    except cbor2.CBORDecodeError as error:
        if isinstance(error.__cause__, UnreadablePayload | _HasReferences):
            raise error.__cause__ from None
        raise UnreadablePayload(f"not CBOR: {error}") from None
    if not isinstance(fields, Mapping):
        raise UnreadablePayload("not a CBOR map")
    return to_json(fields, is_tree=not has_references)


class _HasReferences(Exception):
    """CBOR refers to an earlier value, which the JSON text must repeat."""


def _refuse_reference(_: Any, immutable: bool) -> NoReturn:
    raise _HasReferences


_REFERENCES = dict.fromkeys((_STRING_REFERENCE, _SHARED_REFERENCE), _refuse_reference)


def _bignum(content: Any, immutable: bool) -> int:
    if not isinstance(content, bytes):
        raise UnreadablePayload("not CBOR: a number that is not made of bytes")
    if len(content) > _MOST_BIGNUM:
        raise too_many_digits()
    return int.from_bytes(content, "big")


def _negative_bignum(content: Any, immutable: bool) -> int:
    return -1 - _bignum(content, immutable)


def _refuse(_: Any, immutable: bool) -> NoReturn:
    raise UnreadablePayload("a ratio, a regular expression or a MIME message has no form in JSON")


_BOUNDED = {
    _POSITIVE: _bignum,
    _NEGATIVE: _negative_bignum,
    # cbor2 may take hours to decode these.
    **dict.fromkeys((_RATIO, _REGULAR_EXPRESSION, _MIME), _refuse),
}


def _gunzipped(payload: bytes, most: int) -> bytes:
    stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        content = stream.decompress(payload, most + 1)
    except zlib.error as error:
        raise UnreadablePayload(f"not gzip: {error}") from None
    _require_room(len(content), most)
    if not stream.eof:
        raise UnreadablePayload("not gzip: it ends too early")
    return content


def _lz4_block(payload: bytes, most: int) -> bytes:
    block = payload[_LZ4_HEADER:]
    length = int.from_bytes(payload[len(LZ4_MAGIC) : _LZ4_HEADER], "big")
    # The length is from the payload: a malicious payload must not exhaust the worker's memory.
    if not block or length > len(block) * _LZ4_BEST_RATIO:
        raise UnreadablePayload("not LZ4: the length in its header is impossible")
    _require_room(length, most)
    try:
        content: bytes = pa.Codec("lz4_raw").decompress(block, length, asbytes=True)
    except OSError:
        raise UnreadablePayload("not LZ4: the block is damaged") from None
    return content


def _require_room(length: int, most: int) -> None:
    if length > most:
        raise UnreadablePayload(f"its content has more than {most:,} bytes")
