"""Projection files: what is read from good ones, and what is said about bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.errors import DefinitionError, InvalidInput
from tidemark.journal.series import NO_TAG
from tidemark.projection.definition import catalog
from tidemark.projection.definition.file import read
from tidemark.projection.definition.model import Mode
from tidemark.projection.definition.query import Select
from tidemark.projection.definition.source import (
    KafkaJournal,
    Messages,
    PersistenceIds,
    Source,
    Tags,
)
from tidemark.settings import REPOSITORY

GOOD = """\
-- name: punctuality
-- version: 2
-- source: tags JFK, LGA
-- mode: bucket
-- target: flights.punctuality
-- event: kind STRING,
--        dep_delay INT

-- What it is for; with a semicolon.
SELECT time_bucket, ';' AS mark -- the end;
FROM events;
"""

KNOWN_MODES = "known are bucket, upsert, fold, append, export"
KNOWN_HEADERS = (
    "known are name, version, source, mode, target, event, start, decoder, on-error, state,"
    " accept-sequence-number-reset-after, look-back, checks, release, key"
)
ADD_MODE = "add a line such as `-- mode: bucket`"
HEADER_FORM = "write `-- key: value`; comments belong below the first line without --"
IDENTIFIER = "use letters, digits and _, at most 48, a letter first"
VERSION = "write a whole number from 1 to 999"
SOURCE = "write one of `messages`, `tags`, `persistence-ids` and `kafka-journal`"
TYPES = (
    "write `messages`, or `messages of` and different entity types (what a persistence id has"
    " before its first |) with commas between them"
)
TAGS = "write `tags` and different tags with commas between them"
IDS = (
    "write `persistence-ids` and different persistence ids with commas between them, in single"
    " quotes if they have blanks, commas or quotes"
)
TOPIC = "write `kafka-journal` and the name of a topic"
TARGET = "write `keyspace.table`"
KEY = "write the columns of the table's primary key in order, with commas between them"
ONE_SELECT = "write one SELECT over the table events"


@pytest.fixture
def write(tmp_path: Path) -> Path:
    """The file that a test writes its definition to."""
    return tmp_path / "bad.sql"


def test_read_returns_every_header_and_the_body_at_its_own_lines(write: Path) -> None:
    write.write_text(GOOD)
    definition = read(write)
    assert (definition.name, definition.version, definition.mode) == ("punctuality", 2, Mode.BUCKET)
    assert definition.source.series_tags == ("JFK", "LGA")
    assert (definition.keyspace, definition.table) == ("flights", "punctuality")
    lines = GOOD.splitlines()
    assert isinstance(definition.body, Select)
    assert definition.body.sql.splitlines()[9:] == [lines[9], "FROM events"]
    assert definition.event.splitlines()[5].index("kind") == lines[5].index("kind")
    assert definition.event.splitlines()[6].index("dep_delay") == lines[6].index("dep_delay")


@pytest.mark.parametrize(
    ("header", "source"),
    [
        ("messages", Messages()),
        ("messages of Order,  Shopping cart", Messages(("Order", "Shopping cart"))),
        ("tags New York, it's", Tags(("New York", "it's"))),
        ("persistence-ids a|1", PersistenceIds(("a|1",))),
        (
            "persistence-ids a|1, 'b |,2',\n--   'it''s|3',\n--   4",
            PersistenceIds(("a|1", "b |,2", "it's|3", "4")),
        ),
        ("kafka-journal journal-1.Order_s", KafkaJournal("journal-1.Order_s")),
    ],
)
def test_read_takes_every_source(write: Path, header: str, source: Source) -> None:
    write.write_text(GOOD.replace("tags JFK, LGA", header))
    definition = read(write)
    assert definition.source == source
    tags = source.names if isinstance(source, Tags) else (NO_TAG,)
    assert (source.series_tags, source.reads_tag_views) == (tags, isinstance(source, Tags))


@pytest.mark.parametrize(
    ("header", "place", "remedy"),
    [
        ("messages of", ":3", TYPES),
        ("messages of A,, B", ":3", TYPES),
        ("messages of A|1", ":3", TYPES),
        ("messages Order", ":3", TYPES),
        ("persistence-ids", ":3:27", IDS),
        ("persistence-ids a|1, a|1", ":3:33", IDS),
        ("persistence-ids a|1,, a|2", ":3:32", IDS),
        ("persistence-ids a|1 a|2", ":3:28", IDS),
        ("persistence-ids a|1,\n--   ''", ":4:6", IDS),
        ("persistence-ids a|1, 'b", ":3:33", IDS),
        ("kafka-journal", ":3", TOPIC),
        ("kafka-journal a, b", ":3", TOPIC),
        ("kafka-journal a b", ":3", TOPIC),
    ],
)
def test_read_refuses_sources(write: Path, header: str, place: str, remedy: str) -> None:
    write.write_text(GOOD.replace("tags JFK, LGA", header))
    with pytest.raises(DefinitionError) as refused:
        read(write)
    assert f"cannot be used ({write}{place}); {remedy}" in str(refused.value)


UPSERT = GOOD.replace("mode: bucket", "mode: upsert").replace("tags JFK, LGA", "messages")


def test_read_takes_every_start(write: Path) -> None:
    write.write_text(UPSERT)
    assert not read(write).starts_from_snapshots
    write.write_text(UPSERT.replace("-- event", "-- start: first-event\n-- event"))
    assert not read(write).starts_from_snapshots
    snapshot = UPSERT.replace("-- event", "-- start: snapshot\n-- event")
    write.write_text(snapshot)
    assert read(write).starts_from_snapshots
    for source in ("messages of Order", "persistence-ids a|1"):
        write.write_text(snapshot.replace("messages", source))
        assert read(write).starts_from_snapshots


@pytest.mark.parametrize(
    ("text", "start", "error"),
    [
        (
            UPSERT,
            "newest",
            "the start 'newest' cannot be used ({file}:6); write `first-event` or `snapshot`",
        ),
        (
            UPSERT.replace("source: messages", "source: tags JFK"),
            "snapshot",
            "start snapshot needs the source messages or persistence-ids ({file}:6); leave start"
            " out, or read messages",
        ),
        (
            UPSERT.replace("source: messages", "source: kafka-journal orders"),
            "snapshot",
            "start snapshot needs the source messages or persistence-ids ({file}:6); leave start"
            " out, or read messages",
        ),
        *(
            (
                UPSERT.replace("mode: upsert", f"mode: {mode}"),
                "snapshot",
                f"start snapshot does not fit the mode {mode} ({{file}}:6); leave start out, or use"
                " a mode with a row per persistence id: upsert or fold",
            )
            for mode in ("bucket", "append", "export")
        ),
    ],
)
def test_read_refuses_starts(write: Path, text: str, start: str, error: str) -> None:
    write.write_text(text.replace("-- event", f"-- start: {start}\n-- event"))
    with pytest.raises(DefinitionError) as refused:
        read(write)
    assert str(refused.value) == error.format(file=write)


def test_fingerprint_changes_with_the_text_and_starts_with_the_version(write: Path) -> None:
    write.write_text(GOOD)
    first = read(write).fingerprint
    assert first == read(write).fingerprint
    write.write_text(GOOD.replace("';'", "'!'"))
    assert read(write).fingerprint != first
    assert first.startswith("2-")


def test_a_blue_green_version_has_its_own_table_and_name_in_the_ledger(write: Path) -> None:
    write.write_text(GOOD)
    in_place = read(write)
    write.write_text(GOOD.replace("-- event:", "-- release: blue-green\n-- event:"))
    definition = read(write)
    assert definition.fingerprint == in_place.fingerprint
    assert (in_place.target, in_place.subject("k")) == ("flights.punctuality", "k/punctuality")
    assert definition.target == "flights.punctuality_v2"
    assert definition.template_target == "flights.punctuality"
    assert (definition.subject("k"), definition.identity("k")) == (
        "k/punctuality@v2",
        "k/punctuality",
    )


def test_fingerprint_stays_when_only_the_checks_change(write: Path) -> None:
    write.write_text(GOOD)
    without = read(write)
    checks = "-- checks: mark = ';',\n--   not null time_bucket\n"
    write.write_text(GOOD.replace("-- event:", f"{checks}-- event:"))
    definition = read(write)
    assert definition.fingerprint == without.fingerprint
    assert [check.text for check in definition.checks] == ["mark = ';'", "not null time_bucket"]


def test_key_is_stated_and_changes_nothing(write: Path) -> None:
    write.write_text(GOOD)
    without = read(write)
    stated = "-- key: time_bucket,\n--      mark\n"
    write.write_text(GOOD.replace("-- event:", f"{stated}-- event:"))
    definition = read(write)
    assert without.key is None
    assert definition.fingerprint == without.fingerprint
    assert definition.key is not None
    assert definition.key.columns == ("time_bucket", "mark")
    assert definition.key.places == ((6, 9), (7, 9))
    # The first that differs; the first too many; the last if there are too few.
    assert definition.key.difference(["time_bucket", "kind"]) == (7, 9)
    assert definition.key.difference(["time_bucket"]) == (7, 9)
    assert definition.key.difference(["time_bucket", "mark", "kind"]) == (7, 9)
    assert definition.key.difference(["kind"]) == (6, 9)


def test_look_back_is_of_the_definition_or_of_the_setting(write: Path) -> None:
    write.write_text(GOOD)
    assert read(write).look_back is None
    write.write_text(GOOD.replace("-- event:", "-- look-back: 0\n-- event:"))
    assert read(write).look_back == 0


@pytest.mark.parametrize(
    ("old", "new", "place", "what", "do"),
    [
        ("-- mode: bucket\n", "", ":6", "the header mode is missing", ADD_MODE),
        ("mode: bucket", "mode:", ":4", "the header mode is empty", ADD_MODE),
        ("-- mode:", "-- modus:", ":4", "unknown header modus", KNOWN_HEADERS),
        ("-- mode:", "-- name:", ":4", "the header name is given twice", "keep one, line 1"),
        ("-- mode:", "--mode:", ":4", "not a header: '--mode: bucket'", HEADER_FORM),
        ("name: p", "name: a-b", ":1", "the name 'a-bunctuality' is not an identifier", IDENTIFIER),
        ("version: 2", "version: two", ":2", "the version 'two' cannot be used", VERSION),
        ("version: 2", "version: 1000", ":2", "the version '1000' cannot be used", VERSION),
        ("tags JFK, LGA", "topic x", ":3", "the source 'topic x' cannot be used", SOURCE),
        ("JFK, LGA", "JFK,, LGA", ":3", "the source 'tags JFK,, LGA' cannot be used", TAGS),
        ("JFK, LGA", "JFK, JFK", ":3", "the source 'tags JFK, JFK' cannot be used", TAGS),
        ("mode: bucket", "mode: merge", ":4", "unknown mode 'merge'", KNOWN_MODES),
        (
            "mode: bucket",
            "mode: bucket\n-- look-back: a day",
            ":5",
            "the look-back 'a day' cannot be used",
            "write a number of time buckets, from 0 to 10000",
        ),
        (
            "tags JFK, LGA\n-- mode: bucket",
            "messages\n-- mode: bucket\n-- look-back: 2",
            ":5",
            "look-back is for the source tags",
            "leave it out: of this source late events are found however late they come",
        ),
        (
            "mode: bucket",
            "mode: bucket\n-- release: green",
            ":5",
            "unknown release 'green'",
            "known are in-place, blue-green",
        ),
        ("-- event", "-- key: a,, b\n-- event", ":6:11", "the key cannot be read", KEY),
        ("-- event", "-- key: a, b c\n-- event", ":6:12", "the key cannot be read", KEY),
        ("-- event", "-- key: a, b, a\n-- event", ":6:15", "the key has a twice", KEY),
        ("-- event", "-- key: a, 'b\n-- event", ":6:12", "the key has a quote in it", KEY),
        (
            "-- event",
            "-- key: a,\n--   (b)\n-- event",
            ":7:6",
            "the key's '(b)' is not the name of a column",
            KEY,
        ),
        (
            "mode: bucket",
            "mode: export\n-- key: a",
            ":5:9",
            "mode export writes files, which have no key",
            "leave it out",
        ),
        (
            "mode: bucket",
            "mode: export\n-- release: blue-green",
            ":5",
            "mode export is not released blue/green",
            "write the new version to another directory by another definition",
        ),
        (
            "punctuality\n-- event",
            f"{'p' * 46}\n-- release: blue-green\n-- event",
            ":5",
            f"the target's table '{'p' * 46}_v2' is not an identifier",
            IDENTIFIER,
        ),
        ("flights.punctuality", "t", ":5", "the target 't' has no keyspace", TARGET),
        (
            "s.punct",
            "s.a b",
            ":5",
            "the target's table 'a buality' is not an identifier",
            IDENTIFIER,
        ),
        ("flights.", 'f".', ":5", "the target's keyspace 'f\"' is not an identifier", IDENTIFIER),
        ("FROM events;", "; SELECT 1", ":11:3", "there is more than one statement", ONE_SELECT),
        ("SELECT", "INSERT INTO x SELECT", ":10:1", "the SQL starts with 'INSERT'", ONE_SELECT),
    ],
)
def test_read_refuses(write: Path, old: str, new: str, place: str, what: str, do: str) -> None:
    assert GOOD.count(old) == 1
    write.write_text(GOOD.replace(old, new))
    with pytest.raises(DefinitionError) as refused:
        read(write)
    assert str(refused.value) == f"{what} ({write}{place}); {do}"
    assert refused.value.exit_status == 2


def test_read_refuses_a_file_without_sql(write: Path) -> None:
    write.write_text(GOOD.split("SELECT")[0])
    with pytest.raises(DefinitionError, match=r"there is no SELECT \(.*bad\.sql:9:"):
        read(write)


def test_read_refuses_bytes_that_are_not_utf8(write: Path) -> None:
    write.write_bytes(GOOD.encode() + b"\xff")
    with pytest.raises(DefinitionError, match=r"the file is not UTF-8 \(.*bad\.sql:1\)"):
        read(write)


def test_load_refuses_two_files_with_one_name(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(GOOD)
    (tmp_path / "b.sql").write_text("-- version: 1\n" + GOOD.replace("-- version: 2\n", ""))
    with pytest.raises(DefinitionError) as refused:
        catalog.load(tmp_path)
    assert str(refused.value) == (
        f"the name punctuality is taken by a.sql ({tmp_path / 'b.sql'}:2);"
        " give each projection a name of its own"
    )


def test_select_names_what_exists_when_a_projection_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(GOOD)
    assert [one.name for one in catalog.select(tmp_path, [])] == ["punctuality"]
    with pytest.raises(InvalidInput) as refused:
        catalog.select(tmp_path, ["punctuality", "speed"])
    assert str(refused.value) == (
        f"no projection is named speed (--projection); {tmp_path} has punctuality"
    )


def test_load_refuses_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no such directory"):
        catalog.load(tmp_path / "nowhere")


def test_the_shipped_definitions_are_good() -> None:
    shipped = catalog.load(REPOSITORY / "include" / "sql" / "projections")
    assert [(one.name, one.source.series_tags, one.mode) for one in shipped] == [
        ("aircraft_state", (NO_TAG,), Mode.UPSERT),
        ("daily_punctuality", ("EWR", "JFK", "LGA"), Mode.BUCKET),
    ]
