"""kafka-journal's wire format, against the records and rows of its own code."""

from __future__ import annotations

import json
import struct
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.journals.kafka.wire import action, duration, json_text
from tidemark.journals.kafka.wire.fields import Malformed
from tidemark.journals.kafka.wire.record import Decoded, Record, decode

_FIXTURES = Path(__file__).parent / "data" / "kafka_journal_wire_fixtures.json"
FIXTURES: dict[str, Any] = json.loads(_FIXTURES.read_text("utf-8"))
RECORDS = [*FIXTURES["encoded"], *FIXTURES["from_resources"]]
STAMP = datetime.fromisoformat("2019-12-12T10:10:10.123Z")
APPEND = b'{"append":{"range":{"from":1,"to":1},"payloadType":"%s"}}'


def record_of(fixture: dict[str, Any]) -> Record:
    fields = fixture["record"]
    value = fields["value_hex"]
    return Record(
        fields["key"].encode(),
        datetime.fromtimestamp(fields["timestamp_ms"] / 1000, STAMP.tzinfo),
        [(header["key"], bytes.fromhex(header["value_hex"])) for header in fields["headers"]],
        None if value is None else bytes.fromhex(value),
    )


def as_fixture(decoded: Decoded, timestamp: str) -> dict[str, Any]:
    """Return what was decoded in the form of the fixtures."""
    action = decoded.action
    told: dict[str, Any] = {
        "key": decoded.id,
        "timestamp": timestamp,
        "origin": action.origin,
        "version": action.version,
        "action": action.type.value,
    }
    if action.mark_id is not None:
        told["id"] = action.mark_id
    if action.type == "delete":
        told["to"] = action.to
    if decoded.payload is None or action.payload_type is None:
        return told
    expiry = decoded.payload.expire_after
    return told | {
        "from": action.first,
        "to": action.to,
        "payloadType": action.payload_type.value,
        "expireAfter_ms": None if expiry is None else expiry.milliseconds,
        "rows": [
            {
                "seq_nr": event.seq_nr,
                "tags": sorted(event.tags),
                "payload_type": event.payload_type,
                "payload_txt": event.text,
                "payload_bin_hex": None if event.binary is None else event.binary.hex(),
                "metadata": decoded.metadata,
                "headers": decoded.headers,
            }
            for event in decoded.payload.events
        ],
    }


@pytest.mark.parametrize(
    "fixture", [one for one in FIXTURES["encoded"] if one["name"].startswith("purge")]
)
def test_a_purge_is_written_as_kafka_journal_writes_it(fixture: dict[str, Any]) -> None:
    decoded, record = fixture["decoded"], record_of(fixture)
    header = action.purge_header(decoded["origin"], decoded["version"])
    assert record.headers == [(action.HEADER, header)]
    assert record.value is None


@pytest.mark.parametrize("fixture", RECORDS, ids=lambda fixture: fixture["name"])
def test_a_record_decodes_to_the_rows_of_kafka_journal(fixture: dict[str, Any]) -> None:
    decoded = decode(record_of(fixture))
    assert decoded is not None
    expected = fixture["decoded"]
    for row in expected.get("rows", []):
        row["tags"] = sorted(row["tags"])
    assert as_fixture(decoded, expected["timestamp"]) == expected


def append(value: bytes, payload_type: bytes = b"json", *headers: tuple[str, bytes]) -> Record:
    return Record(b"id", STAMP, [("journal.action", APPEND % payload_type), *headers], value)


def binary(
    version: int = 0,
    *,
    count: int = 1,
    seq_nr: int = 1,
    kind: int = 0,
    payload_size: int = 0,
    rest: bytes = b"",
) -> Record:
    """Return an append of an event without tags and payload, in the binary form."""
    event = struct.pack(">qiBi", seq_nr, 0, kind, payload_size)
    return append(struct.pack(">Bii", version, count, len(event)) + event + rest, b"binary")


ONE = b'{"events":[{"seqNr":1,"tags":[]}],"metadata":{}}'


@pytest.mark.parametrize(
    "record",
    [
        Record(None, STAMP, [("journal.action", b'{"purge":{}}')], None),
        Record(b"id", None, [("journal.action", b'{"purge":{}}')], None),
        Record(b"id", STAMP, [], None),
        Record(b"id", STAMP, [("other", b"{}")], None),
        Record(b"id", STAMP, [("journal.action", b'{"move":{}}')], None),
        Record(b"id", STAMP, [("journal.action", b'{"purge":1}')], None),
        Record(b"id", STAMP, [("journal.action", b"[]")], None),
        Record(b"id", STAMP, [("journal.action", APPEND % b"json")], None),
    ],
    ids=["key", "timestamp", "headers", "action", "unknown", "no-object", "no-fields", "value"],
)
def test_a_record_without_what_it_needs_is_passed_over(record: Record) -> None:
    assert decode(record) is None


@pytest.mark.parametrize(
    ("record", "cause"),
    [
        (Record(b"id", STAMP, [("journal.action", b"{")], None), "journal.action is not JSON"),
        (Record(b"id", STAMP, [("journal.action", b"\xff")], None), "journal.action is not JSON"),
        (
            Record(b"id", STAMP, [("journal.action", b'{"delete":{"to":0}}')], None),
            "journal.action: delete.to is 0 and no seq nr",
        ),
        (
            Record(b"id", STAMP, [("journal.action", b'{"delete":{"to":"3"}}')], None),
            'delete.to is "3" and no seq nr',
        ),
        (
            Record(b"id", STAMP, [("journal.action", b'{"purge":{"origin":1}}')], None),
            "purge.origin is 1 and no text",
        ),
        (Record(b"id", STAMP, [("journal.action", b'{"mark":{}}')], None), "mark has no id"),
        (
            Record(
                b"id",
                STAMP,
                [("journal.action", APPEND.replace(b'"from":1', b'"from":2') % b"json")],
                ONE,
            ),
            "append.range goes from 2 down to 1",
        ),
        (
            Record(b"id", STAMP, [("journal.action", b'{"append":{"payloadType":"json"}}')], ONE),
            "append has no range",
        ),
        (append(ONE, b"text"), 'append has the payloadType "text"'),
        (append(b"no"), "the value is not JSON"),
        (append(b'{"events":[]}'), "the value has no events"),
        (append(b'{"events":[{"seqNr":1}]}'), r"events\[0\] has no tags"),
        (append(b'{"events":[{"seqNr":1,"tags":[1]}]}'), "a tag that is no text"),
        (
            append(b'{"events":[{"seqNr":1,"tags":[],"payloadType":"text","payload":{}}]}'),
            "a payload that is no text",
        ),
        (
            append(b'{"events":[{"seqNr":1,"tags":[]}],"metadata":{"expireAfter":"test"}}'),
            "metadata.expireAfter: 'test' is no duration",
        ),
        (append(ONE.replace(b"{}", b'{"expireAfter":true}')), "expireAfter is true, no duration"),
        (append(ONE.replace(b"{}", b'{"expireAfter":[]}')), r"expireAfter is \[\], no duration"),
        (append(ONE.replace(b"{}", b"[]")), "metadata is no JSON object"),
        (append(b"[]"), "the value is no JSON object"),
        (append(b'{"events":[1]}'), r"events\[0\] is no JSON object"),
        (
            append(b'{"events":[{"seqNr":1,"tags":[],"payloadType":"binary"}]}'),
            r'events\[0\] has the payloadType "binary"',
        ),
        (append(b"", b"binary"), "the value is empty"),
        (binary(count=0), "the value has no events"),
        (binary(count=-1), "the value has no events"),
        (binary(count=2), "the value ends early"),
        (binary(seq_nr=0), r"events\[0\].seqNr is 0 and no seq nr"),
        (binary(kind=4), r"events\[0\] has the payload type 4"),
        (binary(payload_size=-1), "the value ends early: -1 bytes wanted, 0 left"),
        (append(b"\x01\x00\x00", b"binary"), "the value ends early"),
        (append(b"\x00\x7f\xff\xff\xff", b"binary"), "the value ends early"),
        (append(ONE, b"json", ("h", b"\xff")), "the header h is not UTF-8"),
    ],
)
def test_a_record_that_upstream_stops_at_is_told_with_its_cause(record: Record, cause: str) -> None:
    with pytest.raises(Malformed, match=cause):
        decode(record)


def test_the_first_action_and_the_last_of_the_users_headers_count() -> None:
    twice = append(ONE, b"json", ("h", b"1"), ("journal.action", b'{"purge":{}}'), ("h", b"2"))
    decoded = decode(twice)
    assert decoded is not None
    assert (decoded.action.type, decoded.headers) == ("append", {"h": "2"})


def test_other_headers_are_the_users_whatever_they_are_called() -> None:
    names = ("a", "journal.actioo", "z")
    others = [(name, b'{"purge":{}}') for name in names]
    for headers in ([*others, *append(ONE).headers], [*append(ONE).headers, *others]):
        decoded = decode(Record(b"id", STAMP, headers, ONE))
        assert decoded is not None
        assert decoded.action.type == "append"
        assert decoded.headers == dict.fromkeys(names, '{"purge":{}}')


def test_of_two_actions_the_first_counts_also_if_it_is_empty() -> None:
    purge = ("journal.action", b'{"purge":{}}')
    assert decode(Record(b"id", STAMP, [("journal.action", None), purge], None)) is None
    assert decode(Record(b"id", STAMP, [purge, ("journal.action", None)], None)) is not None


def test_only_an_append_has_metadata() -> None:
    whole = decode(append(ONE))
    assert whole is not None
    assert whole.metadata == '{"header":{},"payload":{}}'
    purge = action.Action(action.ActionType.PURGE)
    for part in (Decoded("id", whole.action), Decoded("id", purge, whole.payload)):
        with pytest.raises(ValueError, match="has no metadata"):
            _ = part.metadata


def test_null_of_json_is_lost_where_binary_keeps_it() -> None:
    in_json = decode(append(b'{"events":[{"seqNr":1,"tags":[],"payload":null}]}'))
    event = b"\0\0\0\0\0\0\0\1" + b"\0\0\0\0" + b"\2" + b"\0\0\0\4null"
    in_binary = decode(append(b"\1\0\0\0\1\0\0\0\x15" + event + b"{}", b"binary"))
    texts = [decoded.payload.events[0].text for decoded in (in_json, in_binary)]  # type: ignore[union-attr]
    assert texts == [None, "null"]


@pytest.mark.parametrize("version", [0, 1, 2, 100])
def test_events_are_read_whatever_version_is_written_before_them(version: int) -> None:
    """EventsTest: version byte 100."""
    event = b"\0\0\0\0\0\0\0\7" + b"\0\0\0\0" + b"\0" + b"\0\0\0\0"
    value = bytes([version]) + b"\0\0\0\1\0\0\0\x11" + event + b"not metadata"
    decoded = decode(append(value, b"binary"))
    assert decoded is not None
    assert decoded.payload is not None
    assert [event.seq_nr for event in decoded.payload.events] == [7]
    assert decoded.metadata == '{"header":{},"payload":{}}'


@pytest.mark.parametrize(
    ("version", "rest", "data"),
    [(0, b'{"data":7}', None), (1, b'{"data":7}', 7), (2, b'{"data":7}', None), (1, b"[]", None)],
)
def test_only_version_1_has_metadata(version: int, rest: bytes, data: int | None) -> None:
    decoded = decode(binary(version, rest=rest))
    assert decoded is not None
    assert decoded.payload is not None
    assert decoded.payload.data == data


def test_a_payload_without_a_type_is_json_and_a_number_a_time_in_milliseconds() -> None:
    value = b'{"events":[{"seqNr":1,"tags":[],"payload":{"a": 1}}],"metadata":{"expireAfter":5000}}'
    decoded = decode(append(value))
    assert decoded is not None
    assert decoded.payload is not None
    [event] = decoded.payload.events
    assert (event.payload_type, event.text) == ("json", '{"a":1}')
    assert str(decoded.payload.expire_after) == "5000 milliseconds"


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("1.0", "1"),
        ("0.100", "0.1"),
        ("-0.0", "0"),
        ("-0", "0"),
        ("1e10", "10000000000"),
        ("1E-7", "1E-7"),
        ("1e-6", "0.000001"),
        ("1e100", "1E+100"),
        ("123456789012345678901234567890", "1.2345678901234567890123456789E+29"),
        ("12345678901234567890", "12345678901234567890"),
        ("99999999999999999999", "99999999999999999999"),
        ("100000000000000000000", "1E+20"),
        ("1e-10", "1E-10"),
        ("1e6178", "1E+6178"),
        ("-1e-6178", "-1E-6178"),
        ("1" + "0" * 309, "1E+309"),
        ("0.12345678901234567890123456789012345678", "0.1234567890123456789012345678901235"),
        ('{ "b" : 1, "a" : [ true, null ], "b" : 2.50 }', '{"b":2.5,"a":[true,null]}'),
        (r'"\u2028\/\u001f\n\u20ac"', '"\u2028/\\u001f\\n€"'),
    ],
)
def test_json_is_written_again_as_kafka_journal_writes_it(written: str, kept: str) -> None:
    assert json_text.render(json_text.parse(written)) == kept


@pytest.mark.parametrize(
    "text",
    [
        *("NaN", "Infinity", "01", "1.", "[1,]", "{'a':1}", "1 2", "[" * 99999),
        *("1e99999999999999999999", "-1e-99999999999999999999", "9" * 311, "1e600000000"),
        *("1e6179", "1e-6179", "[" * 201 + "]" * 201, '[{"a":' * 100 + "[]" + "}]" * 100),
        *("[" * 300 + "]" * 300, '{"a":' * 300 + "1" + "}" * 300),
    ],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        json_text.parse(text)


def test_of_a_long_number_the_beginning_is_told() -> None:
    with pytest.raises(ValueError, match=r"^the number 9{40} is too large or too precise$"):
        json_text.parse("9" * 311)


def test_json_as_deep_as_is_read_can_be_written() -> None:
    text = '{"a":[' * 100 + "1" + "]}" * 100
    assert json_text.render(json_text.parse(text)) == text


def test_brackets_in_a_text_or_beside_each_other_are_not_deep() -> None:
    deepest = "[" * 199 + "[],[]" + "]" * 199
    for text in ('["' + "[" * 300 + '"]', "[" + "[]," * 300 + "[]]", deepest):
        assert json_text.render(json_text.parse(text)) == text


@pytest.mark.parametrize(
    ("written", "seq_nr"), [("1", 1), ("7.0", 7), ("7e0", 7), (str(2**63 - 1), 2**63 - 1)]
)
def test_a_seq_nr_is_a_whole_number_however_it_is_written(written: str, seq_nr: int) -> None:
    parsed = action.parse(b'{"delete":{"to":%s}}' % written.encode())
    assert parsed is not None
    assert parsed.to == seq_nr


@pytest.mark.parametrize("written", ["0", "-1", "1.5", "2.5", "0.5", "true", "null", str(2**63)])
def test_what_is_no_seq_nr_is_refused(written: str) -> None:
    with pytest.raises(Malformed, match=r"delete.to is .* and no seq nr"):
        action.parse(b'{"delete":{"to":%s}}' % written.encode())


JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-1000, max_value=1000),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=8,
)


@given(JSONS)
def test_what_was_written_once_is_written_the_same_again(value: json_text.Json) -> None:
    once = json_text.render(json_text.parse(json_text.render(value)))
    assert json_text.render(json_text.parse(once)) == once


@pytest.mark.parametrize(
    ("text", "written", "milliseconds"),
    [
        ("1 min", "1 minute", 60_000),
        ("30 h", "30 hours", 108_000_000),
        ("1 day", "1 day", 86_400_000),
        ("24 hours", "1 day", 86_400_000),
        ("90 seconds", "90 seconds", 90_000),
        ("1500 milliseconds", "1500 milliseconds", 1500),
        ("1.5 d", "36 hours", 129_600_000),
        ("  2  days ", "2 days", 172_800_000),
        ("0 s", "0 days", 0),
        ("-24 h", "-1 days", -86_400_000),
        ("1.5 ns", "2 nanoseconds", 0),
        ("1.7 ns", "2 nanoseconds", 0),
        ("1.4 ns", "1 nanosecond", 0),
        ("4503599627370497 ns", "4503599627370497 nanoseconds", 4_503_599_627),
        ("120 seconds", "2 minutes", 120_000),
        # Beyond 2**53 neither the number nor the unit is changed.
        ("9007199254740000 ns", "9007199254740 microseconds", 9_007_199_254),
        ("9007199254740992.0 ns", "9007199254740992 nanoseconds", 9_007_199_254),
        ("9007199254741000 ns", "9007199254741000 nanoseconds", 9_007_199_254),
        ("9223372036854775807 ns", "9223372036854775807 nanoseconds", 9_223_372_036_854),
        ("0" * 998 + "1s", "1 second", 1_000),
    ],
)
def test_durations_are_those_of_scala(text: str, written: str, milliseconds: int) -> None:
    """FiniteDurationFormatTest."""
    parsed = duration.parse(text)
    assert (str(parsed), parsed.milliseconds) == (written, milliseconds)


@pytest.mark.parametrize(
    ("unit", "nanoseconds"),
    [
        *(("d", 86_400 * 10**9), ("h", 3_600 * 10**9), ("m", 60 * 10**9), ("s", 10**9)),
        *(("ms", 10**6), ("µs", 1_000), ("ns", 1)),
        *(("hr", 3_600 * 10**9), ("mins", 60 * 10**9), ("secs", 10**9)),
        *(("millis", 10**6), ("micros", 1_000), ("nano", 1)),
    ],
)
def test_a_unit_has_its_nanoseconds(unit: str, nanoseconds: int) -> None:
    assert duration.parse(f"7 {unit}").nanoseconds == 7 * nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        *("test", "", "1", "day", "1 fortnight", "Inf", "1000000 days"),
        *("9223372036854775808 ns", "-9223372036854775808 ns", "0" * 999 + "1s"),
    ],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no duration|is longer than"):
        duration.parse(text)


def test_a_number_is_a_duration_in_milliseconds() -> None:
    """FiniteDurationFormatTest: 2."""
    assert str(duration.of_milliseconds(2)) == "2 milliseconds"


@pytest.mark.parametrize("text", ["1" * 1_000_000, "1" * 1_000_000 + " seconds"])
def test_a_long_text_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"^'1{40}' is no duration$"):
        duration.parse(text)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"a":' * 300 + b"1" + b"}" * 300,
        b'{"a":1e99999999999999999999}',
    ],
)
def test_a_payload_of_a_few_bytes_is_malformed_alone(payload: bytes) -> None:
    event = struct.pack(">qiBi", 1, 0, 2, len(payload)) + payload
    value = b"\x00" + struct.pack(">ii", 1, len(event)) + event
    headers = [("journal.action", APPEND % b"binary")]
    with pytest.raises(Malformed, match=r"events\[0\].payload is not JSON"):
        decode(Record(b"id", STAMP, headers, value))


def test_what_a_header_names_is_shortened() -> None:
    headers = [("journal.action", APPEND % (b"x" * 100_000))]
    with pytest.raises(Malformed) as refused:
        decode(Record(b"id", STAMP, headers, b""))
    assert str(refused.value).endswith(f'the payloadType "{"x" * 39}')
