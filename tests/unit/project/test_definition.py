"""Projection files: the definitions read from them, and the error messages about them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tests.repository import REPOSITORY
from tidemark.errors import DefinitionError, InvalidInput
from tidemark.journals.pekko.series import NO_TAG
from tidemark.project.definition import catalog
from tidemark.project.definition.file import read
from tidemark.project.definition.model import Mode
from tidemark.project.definition.on_error import MostSkipped, OnError
from tidemark.project.definition.source import KafkaJournal, Messages, PersistenceIds, Source, Tags
from tidemark.user_sql.statement import Select

GOOD = """\
/*---
name: punctuality
version: 2
source: {tags: [JFK, LGA]}
mode: bucket
target: flights.punctuality
event: kind STRING,
       dep_delay INT
---*/

-- What it is for; with a semicolon.
SELECT time_bucket, ';' AS mark -- the end;
FROM events;
"""

KNOWN_MODES = "write 'bucket', 'upsert', 'fold', 'append', 'export' or 'rollup'"
KNOWN = (
    "known are name, version, source, mode, target, file-format, event, formats, with, start, from,"
    " decoders, on-error, deleted-before-consumed, most-skipped, state,"
    " accept-sequence-number-reset-after, look-back, fresh-within, checks, release, promote, key"
)
IDENTIFIER = "use letters, digits and _, at most 48, a letter first"
VERSION = "such as `version: 1`"
SOURCE = ", such as `source: {tags: [EWR, JFK]}`"
ONE_KIND = (
    "write exactly one of entity-types, tags, persistence-ids, kafka-journal, read-model;"
    " journal may be added to events"
)
TARGET = "write `keyspace.table`"
ONCE = "name each of them once"
ONE_SELECT = "write one SELECT over the table events"
FRONT_MATTER = (
    "begin the file with `/*---`, the header as YAML, and `---*/`, each mark in its own line"
)
YAML = "correct it; a text with `: ` or ` #` in it, or odd characters first, needs quotes"


@pytest.fixture
def write(tmp_path: Path) -> Path:
    """Return the file to which a test writes its definition."""
    return tmp_path / "bad.sql"


def test_read_returns_every_header_and_the_body_at_its_own_lines(write: Path) -> None:
    write.write_text(GOOD)
    definition = read(write)
    assert (definition.name, definition.version, definition.mode) == ("punctuality", 2, Mode.BUCKET)
    assert definition.source.series_tags == ("JFK", "LGA")
    assert (definition.keyspace, definition.table) == ("flights", "punctuality")
    lines = GOOD.splitlines()
    assert isinstance(definition.body, Select)
    assert definition.body.sql.splitlines()[11:] == [lines[11], "FROM events"]
    assert definition.event.splitlines()[6].index("kind") == lines[6].index("kind")
    assert definition.event.splitlines()[7].index("dep_delay") == lines[7].index("dep_delay")


@pytest.mark.parametrize(
    ("written", "padded"),
    [
        ("kind STRING", "\n" * 6 + " " * 7 + "kind STRING"),
        ("'kind STRING'", "\n" * 6 + " " * 8 + "kind STRING"),
        ('"kind STR\\x49NG"', "\n" * 6 + " " * 8 + "kind STRING"),
        ("|\n  kind STRING,\n    n INT\n", "\n" * 7 + "  kind STRING,\n    n INT\n"),
        ("> # why\n  kind STRING,\n  n INT", "\n" * 7 + "  kind STRING,\n  n INT\n"),
    ],
)
def test_a_text_keeps_its_place_however_it_is_written(
    write: Path, written: str, padded: str
) -> None:
    write.write_text(GOOD.replace("kind STRING,\n       dep_delay INT", written))
    assert read(write).event.rstrip("\n") == padded.rstrip("\n")


def test_scalars_mean_what_they_look_like(write: Path) -> None:
    tags = "no, on, ~, 1e3, 0o17, 2013-01-01 00:00, 12:30:00"
    write.write_text(GOOD.replace("JFK, LGA", tags))
    assert read(write).source.series_tags == tuple(tags.split(", "))


@pytest.mark.parametrize(
    ("written", "source"),
    [
        ("messages", Messages()),
        ("{entity-types: [Order,  Shopping cart]}", Messages(("Order", "Shopping cart"))),
        ("{tags: [New York, it's]}", Tags(("New York", "it's"))),
        ("{persistence-ids: [a|1]}", PersistenceIds(("a|1",))),
        (
            "\n  persistence-ids:\n  - a|1\n  - b |,2\n  - ' it''s|3'\n  - 4",
            PersistenceIds(("a|1", "b |,2", " it's|3", "4")),
        ),
        ("{kafka-journal: journal-1.Order_s}", KafkaJournal("journal-1.Order_s")),
    ],
)
def test_read_takes_every_source(write: Path, written: str, source: Source) -> None:
    write.write_text(GOOD.replace("{tags: [JFK, LGA]}", written))
    definition = read(write)
    assert definition.source == source
    tags = source.names if isinstance(source, Tags) else (NO_TAG,)
    assert (source.series_tags, source.reads_tag_views) == (tags, isinstance(source, Tags))


@pytest.mark.parametrize(
    ("written", "column", "what", "remedy"),
    [
        ("topic x", 9, "source cannot be 'topic x'", "write 'messages'"),
        ("tags JFK, LGA", 9, "source cannot be 'tags JFK, LGA'", "write 'messages'"),
        ("[JFK, LGA]", 9, "source cannot be ['JFK', 'LGA']", "write a mapping"),
        ("{tag: [JFK]}", 10, "unknown key tag", "write tags"),
        ("{}", 9, "source is empty", ONE_KIND),
        ("{tags: [a], kafka-journal: b}", 9, "source cannot be", ONE_KIND),
        ("{tags: JFK}", 16, "tags cannot be 'JFK'", "write a list"),
        ("{tags: []}", 16, "tags is empty", "name at least one"),
        ("{tags: [JFK, '']}", 22, "tags is empty", "write a text"),
        ("{tags: [JFK, JFK]}", 16, "JFK is there twice", ONCE),
        ("{entity-types: [A|1]}", 25, "entity-types cannot be 'A|1'", "write it in the right form"),
        ("{persistence-ids: [a|1, a|1]}", 27, "a|1 is there twice", ONCE),
        ("{kafka-journal: a b}", 25, "kafka-journal cannot be 'a b'", "write it in the right form"),
    ],
)
def test_read_refuses_sources(
    write: Path, written: str, column: int, what: str, remedy: str
) -> None:
    write.write_text(GOOD.replace("{tags: [JFK, LGA]}", written))
    with pytest.raises(DefinitionError) as refused:
        read(write)
    assert refused.value.what.startswith(what)
    assert refused.value.where == f"{write}:4:{column}"
    assert refused.value.do.removesuffix(SOURCE) == remedy


UPSERT = GOOD.replace("mode: bucket", "mode: upsert").replace("{tags: [JFK, LGA]}", "messages")


def test_read_takes_every_start(write: Path) -> None:
    write.write_text(UPSERT)
    assert not read(write).starts_from_snapshots
    write.write_text(UPSERT.replace("event:", "start: first-event\nevent:"))
    assert not read(write).starts_from_snapshots
    snapshot = UPSERT.replace("event:", "start: snapshot\nevent:")
    write.write_text(snapshot)
    assert read(write).starts_from_snapshots
    for source in ("{entity-types: [Order]}", "{persistence-ids: [a|1]}"):
        write.write_text(snapshot.replace("messages", source))
        assert read(write).starts_from_snapshots


@pytest.mark.parametrize(
    ("text", "start", "error"),
    [
        (
            UPSERT,
            "newest",
            "start cannot be 'newest' ({file}:7:8); write 'first-event' or 'snapshot'",
        ),
        (
            UPSERT.replace("source: messages", "source: {tags: [JFK]}"),
            "snapshot",
            "start snapshot needs the source messages or persistence-ids ({file}:7:8); leave start"
            " out, or read messages",
        ),
        (
            UPSERT.replace("source: messages", "source: {kafka-journal: orders}"),
            "snapshot",
            "start snapshot needs the source messages or persistence-ids ({file}:7:8); leave start"
            " out, or read messages",
        ),
        *(
            (
                UPSERT.replace("mode: upsert", f"mode: {mode}"),
                "snapshot",
                f"start snapshot does not fit the mode {mode} ({{file}}:7:8); leave start out, or"
                " use a mode with a row per persistence id: upsert or fold",
            )
            for mode in ("bucket", "append", "export")
        ),
    ],
)
def test_read_refuses_starts(write: Path, text: str, start: str, error: str) -> None:
    write.write_text(text.replace("event:", f"start: {start}\nevent:"))
    with pytest.raises(DefinitionError) as refused:
        read(write)
    assert str(refused.value) == error.format(file=write)


def test_fingerprint_changes_with_the_text_and_starts_with_the_version(write: Path) -> None:
    write.write_text(GOOD)
    first = read(write).fingerprint
    assert first == read(write).fingerprint
    write.write_text(GOOD.replace("';'", "'!'"))
    assert read(write).fingerprint != first
    write.write_text(GOOD.replace("LGA", "EWR"))
    assert read(write).fingerprint != first
    assert first.startswith("2-")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{tags: [JFK, LGA]}", "# these\n  tags:\n  - JFK\n  - 'LGA'"),
        ("mode: bucket\ntarget: flights.punctuality", "target: flights.punctuality\nmode: bucket"),
        ("mode: bucket", "mode: bucket\nstart: first-event\non-error: skip"),
        ("kind STRING,\n       dep_delay INT", ">-\n  kind STRING,\n  dep_delay INT"),
        ("---*/\n", "---*/\n\n"),
    ],
)
def test_fingerprint_does_not_depend_on_the_layout(write: Path, old: str, new: str) -> None:
    write.write_text(GOOD)
    first = read(write).fingerprint
    assert GOOD.count(old) == 1
    write.write_text(GOOD.replace(old, new))
    assert read(write).fingerprint == first


@pytest.mark.parametrize(
    ("stated", "fingerprint"),
    [
        ("", "2-bf51d704750e"),
        ("on-error: skip\n", "2-bf51d704750e"),
        ("on-error: skip\nmost-skipped: 0.1%\n", "2-bf51d704750e"),
        ("on-error: fail\n", "2-3757184c91cb"),
    ],
)
def test_fingerprints_are_those_of_the_time_when_skip_was_the_default(
    write: Path, stated: str, fingerprint: str
) -> None:
    """An unchanged file, or one that states the former default, has nothing processed again."""
    write.write_text(GOOD.replace("event:", f"{stated}event:"))
    assert read(write).fingerprint == fingerprint


@pytest.mark.parametrize(
    ("stated", "policy"),
    [
        ("", OnError(fails=True)),
        ("on-error: skip\n", OnError()),
        (
            "on-error: skip\nmost-skipped: 10\n",
            OnError(most_skipped=MostSkipped(Decimal(10), is_percent=False)),
        ),
        (
            "on-error: skip\nmost-skipped: 0.1 %\n",
            OnError(most_skipped=MostSkipped(Decimal("0.1"), is_percent=True)),
        ),
    ],
)
def test_events_fail_unless_skipping_is_stated(write: Path, stated: str, policy: OnError) -> None:
    write.write_text(GOOD.replace("event:", f"{stated}event:"))
    assert read(write).on_error == policy


@pytest.mark.parametrize(
    ("limit", "skipped", "read_", "is_allowed"),
    [
        ("10", 10, 10, True),
        ("10", 11, 10_000, False),
        ("0", 1, 1_000, False),
        ("0.1%", 1, 1_000, True),
        ("0.1%", 1, 999, False),
        ("0.1%", 0, 0, True),
        ("100%", 7, 7, True),
    ],
)
def test_most_skipped_is_a_number_or_a_share_of_the_events_read(
    limit: str, skipped: int, read_: int, is_allowed: bool
) -> None:
    assert MostSkipped.parse(limit).allows(skipped, read_) is is_allowed


def test_a_blue_green_version_has_its_own_table_and_name_in_the_ledger(write: Path) -> None:
    write.write_text(GOOD)
    in_place = read(write)
    write.write_text(GOOD.replace("event:", "release: blue-green\nevent:"))
    definition = read(write)
    assert definition.fingerprint == in_place.fingerprint
    assert (in_place.target, in_place.subject("k")) == ("flights.punctuality", "k/punctuality")
    assert definition.target == "flights.punctuality_v2"
    assert definition.template_target == "flights.punctuality"
    assert (definition.subject("k"), definition.identity("k")) == (
        "k/punctuality@v2",
        "k/punctuality",
    )


def test_fingerprint_does_not_depend_on_who_promotes(write: Path) -> None:
    blue_green = GOOD.replace("event:", "release: blue-green\nevent:")
    write.write_text(blue_green)
    automatic = read(write)
    write.write_text(blue_green.replace("event:", "promote: manual\nevent:"))
    manual = read(write)
    assert (automatic.is_promoted_by_hand, manual.is_promoted_by_hand) == (False, True)
    assert manual.fingerprint == automatic.fingerprint


def test_fingerprint_stays_when_only_the_checks_change(write: Path) -> None:
    write.write_text(GOOD)
    without = read(write)
    checks = "checks:\n- mark = ';'\n- not-null: time_bucket\n"
    write.write_text(GOOD.replace("event:", f"{checks}event:"))
    definition = read(write)
    assert definition.fingerprint == without.fingerprint
    assert [check.text for check in definition.checks] == ["mark = ';'", "not null time_bucket"]


def test_key_is_stated_and_changes_nothing(write: Path) -> None:
    write.write_text(GOOD)
    without = read(write)
    stated = "key: [time_bucket,\n      mark]\n"
    write.write_text(GOOD.replace("event:", f"{stated}event:"))
    definition = read(write)
    assert without.key is None
    assert definition.fingerprint == without.fingerprint
    assert definition.key is not None
    assert definition.key.columns == ("time_bucket", "mark")
    assert definition.key.places == ((7, 7), (8, 7))
    # `difference` is at the first differing column, the first extra one, or the last if some lack.
    assert definition.key.difference(["time_bucket", "kind"]) == (8, 7)
    assert definition.key.difference(["time_bucket"]) == (8, 7)
    assert definition.key.difference(["time_bucket", "mark", "kind"]) == (8, 7)
    assert definition.key.difference(["kind"]) == (7, 7)


def test_a_promise_is_in_seconds_and_changes_no_result(write: Path) -> None:
    write.write_text(GOOD)
    without = read(write)
    assert without.fresh_within is None
    write.write_text(GOOD.replace("event:", "fresh-within: 2 h\nevent:"))
    assert read(write).fresh_within == 7200
    assert read(write).fingerprint == without.fingerprint


def test_look_back_is_of_the_definition_or_of_the_setting(write: Path) -> None:
    write.write_text(GOOD)
    assert read(write).look_back is None
    write.write_text(GOOD.replace("event:", "look-back: 0\nevent:"))
    assert read(write).look_back == 0


@pytest.mark.parametrize(
    ("old", "new", "place", "what", "do"),
    [
        ("mode: bucket\n", "", "2:1", "mode is missing", "add `mode: bucket`"),
        ("mode: bucket", "mode:", "5:6", "mode is empty", KNOWN_MODES),
        ("mode:", "moode:", "5:1", "unknown key moode", "write mode"),
        ("mode:", "quux:", "5:1", "unknown key quux", KNOWN),
        ("mode:", "name:", "5:1", "the key name is given twice", "keep one, line 2"),
        ("mode:", "mode", "6:1", "not YAML: could not find expected ':'", YAML),
        (
            "mode: b",
            "mode: `b",
            "5:7",
            "not YAML: found character '`' that cannot start any token",
            YAML,
        ),
        ("mode: b", "mode: \x01b", "5:7", "not YAML: the character '\\x01'", "leave it out"),
        ("mode: b", "mode: &a b", "5:7", "a header has no anchors", "write the value out"),
        (
            "mode: b",
            "mode: !!str b",
            "5:7",
            "a header has no tags such as tag:yaml.org,2002:str",
            "leave it out",
        ),
        ("mode: b", "[mode]: b", "5:1", "a key is not a word", "write `key: value`"),
        (
            "mode: bucket",
            "---\nmode: bucket",
            "5:1",
            "there is more than one document",
            "leave out the `---`",
        ),
        (
            "JFK, LGA",
            f"{'[' * 25}a{']' * 25}",
            "4:38",
            "the lists go too deep",
            "write fewer levels",
        ),
        ("---*/", "--*/", "1:1", "the front matter does not end", FRONT_MATTER),
        ("/*---", "/*", "1:1", "there is no front matter", FRONT_MATTER),
        ("/*---", "-- license: mine\n/*---", "1:1", "there is no front matter", FRONT_MATTER),
        ("name: p", "name: a-b", "2:7", "name cannot be 'a-bunctuality'", IDENTIFIER),
        (
            "version: 2",
            "version: two",
            "3:10",
            "version cannot be 'two'",
            f"write a whole number, {VERSION}",
        ),
        (
            "version: 2",
            "version: 1000",
            "3:10",
            "version cannot be '1000'",
            f"write at most 999, {VERSION}",
        ),
        (
            "version: 2",
            "version: 0x2",
            "3:10",
            "version cannot be '0x2'",
            f"write a whole number, {VERSION}",
        ),
        ("mode: bucket", "mode: merge", "5:7", "mode cannot be 'merge'", KNOWN_MODES),
        ("mode: bucket", "mode: [merge]", "5:7", "mode cannot be ['merge']", KNOWN_MODES),
        (
            "mode: bucket",
            "mode: bucket\nlook-back: a day",
            "6:12",
            "look-back cannot be 'a day'",
            "write a whole number, such as `look-back: 2`",
        ),
        (
            "{tags: [JFK, LGA]}\nmode: bucket",
            "messages\nmode: bucket\nlook-back: 2",
            "6:12",
            "look-back is for the source tags",
            "leave it out: of this source late events are found however late they come",
        ),
        (
            "mode: bucket",
            "mode: bucket\non-error: skip\nmost-skipped: few",
            "7:15",
            "most-skipped cannot be 'few'",
            "write it in the right form, such as `most-skipped: 0.1%`",
        ),
        (
            "mode: bucket",
            "mode: bucket\nmost-skipped: 0.1%",
            "6:15",
            "most-skipped limits what is skipped, and on-error is fail",
            "write `on-error: skip`, or leave most-skipped out",
        ),
        (
            "mode: bucket",
            "mode: bucket\nrelease: green",
            "6:10",
            "release cannot be 'green'",
            "write 'in-place' or 'blue-green'",
        ),
        (
            "mode: bucket",
            "mode: bucket\nrelease: blue-green\npromote: by-hand",
            "7:10",
            "promote cannot be 'by-hand'",
            "write 'automatic' or 'manual'",
        ),
        *(
            (
                "mode: bucket",
                f"mode: bucket\npromote: {how}",
                "6:10",
                "promote is for a projection that is released blue/green",
                "write `release: blue-green` too, or leave promote out",
            )
            for how in ("manual", "automatic")
        ),
        ("event:", "key: [a, '', b]\nevent:", "7:10", "key is empty", IDENTIFIER),
        (
            "event:",
            "key: a, b\nevent:",
            "7:6",
            "key cannot be 'a, b'",
            "write a list, such as `key: [time_bucket, carrier]`",
        ),
        ("event:", "key: [a, b, a]\nevent:", "7:6", "a is there twice", ONCE),
        ("event:", "key: [a,\n  (b)]\nevent:", "8:3", "key cannot be '(b)'", IDENTIFIER),
        (
            "mode: bucket",
            "mode: export\nkey: [a]",
            "6:6",
            "the files and tables of mode export have no key",
            "leave it out",
        ),
        (
            "mode: bucket",
            "mode: export\nrelease: blue-green",
            "6:10",
            "release blue-green does not fit a target in files",
            "leave release out, or write the new version to another table by another definition",
        ),
        (
            "event:",
            "file-format: iceberg\nevent:",
            "7:14",
            "mode bucket writes a table of Cassandra, and no files",
            "write `mode: export`, or leave file-format out",
        ),
        (
            "event:",
            "file-format: orc\nevent:",
            "7:14",
            "file-format cannot be 'orc'",
            "write 'parquet' or 'iceberg'",
        ),
        (
            "punctuality\nevent",
            f"{'p' * 46}\nrelease: blue-green\nevent",
            "6:9",
            f"the target's table '{'p' * 46}_v2' is not an identifier",
            IDENTIFIER,
        ),
        ("flights.punctuality", "t", "6:9", "the target 't' has no keyspace", TARGET),
        (
            "s.punct",
            "s.a b",
            "6:9",
            "the target's table 'a buality' is not an identifier",
            IDENTIFIER,
        ),
        ("flights.", 'f".', "6:9", "the target's keyspace 'f\"' is not an identifier", IDENTIFIER),
        ("FROM events;", "; SELECT 1", "13:3", "there is more than one statement", ONE_SELECT),
        ("SELECT", "INSERT INTO x SELECT", "12:1", "the SQL starts with 'INSERT'", ONE_SELECT),
    ],
)
def test_read_refuses(write: Path, old: str, new: str, place: str, what: str, do: str) -> None:
    assert GOOD.count(old) == 1
    write.write_text(GOOD.replace(old, new))
    with pytest.raises(DefinitionError) as refused:
        read(write)
    assert str(refused.value) == f"{what} ({write}:{place}); {do}"
    assert refused.value.exit_status == 2


def test_read_refuses_a_file_without_sql(write: Path) -> None:
    write.write_text(GOOD.split("SELECT")[0])
    with pytest.raises(DefinitionError, match=r"there is no SELECT \(.*bad\.sql:11:"):
        read(write)


def test_read_refuses_bytes_that_are_not_utf8(write: Path) -> None:
    write.write_bytes(GOOD.encode() + b"\xff")
    with pytest.raises(DefinitionError, match=r"the file is not UTF-8 \(.*bad\.sql:1\)"):
        read(write)


def test_load_refuses_two_files_with_one_name(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(GOOD)
    (tmp_path / "b.sql").write_text(
        GOOD.replace("/*---\n", "/*---\nversion: 1\n").replace("version: 2\n", "")
    )
    with pytest.raises(DefinitionError) as refused:
        catalog.load(tmp_path)
    assert str(refused.value) == (
        f"the name punctuality is taken by b.sql ({tmp_path / 'a.sql'}:2);"
        " give each projection a name of its own"
    )


def test_select_names_what_exists_when_a_projection_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(GOOD)
    [definition] = catalog.select(tmp_path, []).definitions
    assert definition.name == "punctuality"
    with pytest.raises(InvalidInput) as refused:
        catalog.select(tmp_path, ["punctuality", "speed"])
    assert str(refused.value) == (
        "no projection is named speed (--projection); there are: punctuality"
    )


def test_select_hides_no_definition_behind_one_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(GOOD)
    (tmp_path / "broken.sql").write_text(
        GOOD.replace("punctuality", "other").replace("mode:", "m:")
    )
    (tmp_path / "dangling.sql").symlink_to(tmp_path / "nowhere.sql")
    (tmp_path / "twin.sql").write_text(GOOD.replace("punctuality", "twin"))
    (tmp_path / "twin_too.sql").write_text(GOOD.replace("punctuality", "twin"))
    everything = catalog.select(tmp_path, [])
    assert [definition.name for definition in everything.definitions] == ["punctuality"]
    assert [(broken.file.name, broken.name) for broken in everything.unusable] == [
        ("broken.sql", "other"),
        ("dangling.sql", "dangling"),
        ("twin.sql", "twin"),
        ("twin_too.sql", "twin"),
    ]
    assert "the file cannot be read: No such file" in str(everything.errors[1])
    assert "the name twin is taken by twin.sql" in str(everything.errors[3])
    assert catalog.select(tmp_path, ["punctuality"]).errors == []
    assert len(catalog.select(tmp_path, ["other", "punctuality"]).errors) == 1
    with pytest.raises(
        InvalidInput, match=r"there are: punctuality; these files cannot be used: b"
    ):
        catalog.select(tmp_path, ["speed"])


def test_load_refuses_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no such directory"):
        catalog.load(tmp_path / "nowhere")


def test_the_shipped_definitions_are_good() -> None:
    shipped = catalog.load(REPOSITORY / "include" / "sql" / "projections")
    assert [
        (definition.name, definition.source.series_tags, definition.mode) for definition in shipped
    ] == [
        ("aircraft_state", (NO_TAG,), Mode.UPSERT),
        ("daily_punctuality", ("EWR", "JFK", "LGA"), Mode.BUCKET),
    ]
