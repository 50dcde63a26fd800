"""Payloads of Pekko's and Akka's Jackson serializers.

Source: pekko-serialization-jackson, JacksonSerializer.scala (`isGZipped`, `LZ4Meta`,
`decompress`): a payload beginning with the gzip magic number is gzip; one beginning with the four
bytes of LZ4_MAGIC has the length of its content as four more bytes, big endian, then one LZ4
block. Both serializers write either, by configuration; everything else is not compressed.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import cbor2
import pyarrow as pa

from tidemark.projection.decoding.json_text import (
    Translation,
    UnreadablePayload,
    one_by_one,
    to_json,
)

GZIP_MAGIC = bytes.fromhex("1f8b")
LZ4_MAGIC = bytes.fromhex("87d96df6")
MOST_CONTENT = 256 * 1024 * 1024
"""Bytes that a compressed payload may stand for: Cassandra's largest mutation by far."""
_LZ4_HEADER = 8
_LZ4_BEST_RATIO = 255
"""A byte of an LZ4 block stands for 255 bytes at most."""


def decompressed(payload: bytes) -> bytes:
    """Return what the serializer compressed, or the payload itself if it is not compressed.

    Raises:
        UnreadablePayload: the payload begins like a compressed one, but is not whole.
    """
    if payload.startswith(GZIP_MAGIC):
        return _gunzipped(payload)
    if payload.startswith(LZ4_MAGIC):
        return _lz4_block(payload)
    return payload


def jackson_json(payloads: Sequence[bytes]) -> list[Translation]:
    """Return the `Translator` of `jackson-json`."""
    return one_by_one(_json, payloads)


def jackson_cbor(payloads: Sequence[bytes]) -> list[Translation]:
    """Return the `Translator` of `jackson-cbor`."""
    return one_by_one(_cbor, payloads)


def _json(payload: bytes) -> str:
    try:
        return decompressed(payload).decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadablePayload("not UTF-8") from None


def _cbor(payload: bytes) -> str:
    try:
        fields = cbor2.loads(decompressed(payload))
    except cbor2.CBORDecodeError as error:
        raise UnreadablePayload(f"not CBOR: {error}") from None
    if not isinstance(fields, Mapping):
        raise UnreadablePayload("not a CBOR map")
    return to_json(fields)


def _gunzipped(payload: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        content = stream.decompress(payload, MOST_CONTENT)
    except zlib.error as error:
        raise UnreadablePayload(f"not gzip: {error}") from None
    # A few MB of zeros would take the worker's memory.
    if stream.unconsumed_tail:
        raise UnreadablePayload(f"its content has more than {MOST_CONTENT:,} bytes")
    if not stream.eof:
        raise UnreadablePayload("not gzip: it ends too early")
    return content


def _lz4_block(payload: bytes) -> bytes:
    block = payload[_LZ4_HEADER:]
    length = int.from_bytes(payload[len(LZ4_MAGIC) : _LZ4_HEADER], "big")
    # The length is taken from the payload: a poisoned one must not take the worker's memory.
    if not block or length > len(block) * _LZ4_BEST_RATIO:
        raise UnreadablePayload("not LZ4: the length in its header is impossible")
    try:
        content: bytes = pa.Codec("lz4_raw").decompress(block, length, asbytes=True)
    except OSError:
        raise UnreadablePayload("not LZ4: the block is damaged") from None
    return content
