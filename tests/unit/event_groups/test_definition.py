"""What is said of a group's file before Cassandra is asked, and how its statements are sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidemark.errors import DefinitionError
from tidemark.event_groups.definition import statement
from tidemark.event_groups.definition.file import load
from tidemark.event_groups.definition.statement import Elsewhere, StatementKind
from tidemark.event_groups.definition.tokens import Refused

READ = "{name: read, statement: 'SELECT n FROM k.t WHERE id = 1'}"
JAR = "{jar: 'org.example:f', version: '1', functions: {f: a.F}}"
WRITE = "name: write, statement: 'UPDATE k.t SET n = :n WHERE id = 1'"


def refusal(folder: Path, *events: str, head: str = "group: g") -> str:
    file = folder / "group.yaml"
    file.write_text("\n".join([head, "events:", *(f"  - {event}" for event in events)]))
    with pytest.raises(DefinitionError) as raised:
        load(file)
    return str(raised.value)


@pytest.mark.parametrize(
    ("events", "says"),
    [
        (["{name: group-ends}"], "group-ends is the event of the group's own hooks"),
        (
            ["{name: a, library: {name: x, version: '1'}, statement: SELECT a FROM k.t}"],
            "it loads a library",
        ),
        (
            [
                "{name: a, library: {name: x, version: '1'}}",
                f"{{{WRITE}, needs: [{{as: n, call: 'x:y'}}]}}",
            ],
            "write calls a function while a may load a library",
        ),
        (
            [
                f"{{name: load, library: {JAR}}}",
                "{name: scan, many: true, statement: SELECT n FROM k.t}",
                f"{{{WRITE}, after: [scan], each: scan, needs: [{{event: scan, as: n, sql: n}}]}}",
            ],
            "write calls a function while load may load a library",
        ),
        (
            [
                f"{{name: load, library: {JAR}}}",
                f"{{name: again, library: {JAR}, after: [load]}}",
            ],
            "org.example:f is loaded twice",
        ),
        ([f"{{name: load, library: {JAR}}}".replace("org.example:f", "f")], "in the right form"),
        ([f"{{name: load, library: {JAR}}}".replace("a.F", "a F")], "in the right form"),
        ([f"{{name: load, library: {JAR}}}".replace("f: a", "f(): a")], "in the right form"),
        ([f"{{name: load, library: {JAR}}}".replace("'1'", "1+")], "in the right form"),
        (["{name: load, library: {jar: 'a:b', version: '1'}}"], "functions is missing"),
        (
            ["{name: load, library: {jar: 'a:b', version: '1', functions: {}}}"],
            "functions is empty",
        ),
        (["{name: load, library: {name: b, jar: 'a:b', version: '1'}}"], "unknown key name"),
        ([f"{{{WRITE}, needs: [{{as: n}}]}}"], "nothing says where its value is from"),
        (
            [READ, f"{{{WRITE}, after: [read], needs: [{{event: read, as: n, sql: 'n +'}}]}}"],
            "not an expression: Parser Error",
        ),
        (
            [READ, f"{{{WRITE}, after: [read], needs: [{{event: read, as: n, sql: n, take: n}}]}}"],
            "its value is made in several ways",
        ),
        ([f"{{{WRITE}, needs: [{{as: n, call: 'x y'}}]}}"], "write it in the right form"),
        ([f"{{{WRITE}, values: {{n: 1}}, each: read}}"], "it needs data of read, and does not"),
        (
            [READ, "{name: b, after: [read], each: read}"],
            "only writes are sent for each row",
        ),
        (["{name: a, hooks: {after: [{http: x, dag: y}]}}"], "write exactly one of http, kafka"),
        (
            ["{name: a, hooks: {after: [{submit: {group: h, events: [{name: a, after: [b]}]}}]}}"],
            "there is no event b (FILE:3",
        ),
        (["{name: a}", "{name: a}"], "the event a is there twice (FILE:4:12); give it another"),
        (["{name: a, after: [b]}"], "there is no event b (FILE:3:23); events are a"),
        (
            ["{name: a, after: [c]}", "{name: b, after: [a]}", "{name: c, after: [b]}"],
            "events wait for each other: a after c after b after a",
        ),
        (["{name: a, after: [a]}"], "events wait for each other: a after a (FILE:3:22)"),
        ([f"{{{WRITE}}}"], "the parameter n has no value"),
        ([f"{{{WRITE}, values: {{n: 1, m: 2}}}}"], "the statement has no parameter m"),
        (
            [READ, f"{{{WRITE}, needs: [{{event: read, as: n}}]}}"],
            "it needs data of read, and does not depend on it",
        ),
        (
            ["{name: e}", f"{{{WRITE}, after: [e], needs: [{{event: e, as: n}}]}}"],
            "e selects nothing",
        ),
        (
            [
                READ,
                f"{{{WRITE}, after: [read], values: {{n: 1}}, needs: [{{event: read, as: n}}]}}",
            ],
            "the parameter n has a value, too",
        ),
        ([f"{{{WRITE}, values: {{n: 1}}, expect: one}}"], "only a select finds rows"),
        (["{name: e, rollback: {statements: [{statement: x}]}}"], "there is nothing to take back"),
        (
            [f"{{{WRITE}, values: {{n: 1}}, rollback: {{statements: [{{statement: SELECT}}]}}}}"],
            "it has no FROM",
        ),
        (
            [
                f"{{{WRITE}, values: {{n: 1}}, rollback: {{statements: [{{statement:"
                " 'DELETE FROM k.t WHERE id = :x'}]}}"
            ],
            "the parameter x has no value",
        ),
        (["{name: a, statment: x}"], "unknown key statment"),
        (["{name: A}"], "name cannot be 'A'"),
        (["{name: a, timeout: 0}"], "write at least 1"),
        (["{name: a, statement: SELECT n FROM k.(}"], "not a name Cassandra accepts: '('"),
        ([r'{name: a, statement: "\ud83d"}'], "half of a character, without its other half"),
        ([r'{name: a, statement: "\UFFFFFFFF"}'], "(FILE:3:27); correct it"),
    ],
)
def test_a_group_that_cannot_be_executed_is_refused_at_its_place(
    tmp_path: Path, events: list[str], says: str
) -> None:
    found = refusal(tmp_path, *events).replace(f"{tmp_path}/group.yaml", "FILE")
    assert says in found
    assert "(FILE:" in found


def test_a_group_may_be_json_as_programs_write_it(tmp_path: Path) -> None:
    statement = "UPDATE k.t SET n = :n WHERE id = '\U0001f600\t'"
    event = {"name": "write", "statement": statement, "values": {"n": 12.50}}
    file = tmp_path / "group.json"
    file.write_text(json.dumps({"group": "g", "events": [event]}, indent="\t"))
    [found] = load(file)[0].group.events
    assert (found.statement, found.values) == (statement, {"n": "12.5"})


def test_an_event_that_waits_for_none_may_say_so(tmp_path: Path) -> None:
    file = tmp_path / "group.yaml"
    groups = []
    for after in (", after: []", ""):
        file.write_text(f"group: g\nevents: [{{name: a{after}}}]")
        groups.append(load(file)[0].group)
    assert groups[0] == groups[1]
    twice = refusal(tmp_path, "{name: a}", "{name: b, after: [a, a]}")
    assert "a is there twice" in twice


def test_a_declared_row_names_its_table_with_the_keyspace(tmp_path: Path) -> None:
    head = "group: g\nrows: [{table: t, key: {id: 1}}]"
    assert "t is no table with its keyspace" in refusal(tmp_path, "{name: a}", head=head)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "nothing is no statement of an event"),
        ("TRUNCATE k.t", "TRUNCATE is no statement of an event"),
        ("BEGIN BATCH", "BEGIN is no statement of an event"),
        ("UPDATE t SET n = 1 WHERE id = 1", "t is no table with its keyspace"),
        ("UPDATE k.t SET n = n + 1 WHERE id = 1", "is not the same if it is sent twice"),
        ("UPDATE k.t SET n += 1 WHERE id = 1", "is not the same if it is sent twice"),
        ("UPDATE k.t SET l[0] = 1 WHERE id = 1", "is not the same if it is sent twice"),
        ("UPDATE k.t SET n = 1 WHERE id = 1 IF n = 2", "it has a condition IF"),
        ("INSERT INTO k.t (id) VALUES (1) IF NOT EXISTS", "it has a condition IF"),
        ("DELETE FROM k.t USING TIMESTAMP 1 WHERE id = 1", "it has a TIMESTAMP"),
        *(
            (f"INSERT INTO k.t (id, at) VALUES (1, {call})", f"{call} is no function")
            for call in (
                *("now()", "uuid()", "currentTimestamp()", "currentDate()", "currentTime()"),
                *("currentTimeUUID()", "current_timestamp()", "current_date()", "current_time()"),
                *("current_timeuuid()", '"now"()', '"current_date"()', "mine()", '"MAX"()'),
                *("k.mine()", "k.max()", '"k"."max"()', "key()", "values()", '"IN"()'),
            )
        ),
        ("INSERT INTO k.t (id, at) VALUES (1, (uuid) values())", "values() is no function"),
        ("UPDATE k.t SET at = to_date(now()) WHERE id = 1", "now() is no function"),
        ("SELECT n FROM k.t WHERE id = mine(1)", "mine() is no function"),
        ("SELECT mine(n) FROM k.t WHERE id = 1", "mine() is no function"),
        ("DELETE FROM k.t WHERE id = now()", "now() is no function"),
        ("INSERT INTO k.t (id, n) VALUES (1)", "it has 2 columns and 1 values"),
        ("INSERT INTO k.t JSON '{}'", "it has JSON"),
        ("SELECT n FROM k.t; DROP TABLE k.t", "there is a `;` in it"),
        ("DELETE FROM k.t WHERE id = ?", "there is a `?` in it"),
        ("DELETE l[1] FROM k.t WHERE id = 1", "it deletes a part of a column"),
        ("DELETE FROM k.t", "it has no WHERE"),
        ("SELECT n FROM k.t WHERE id = 1 LIMIT :m", "its limit is a parameter"),
        ("UPDATE k.t USING TTL :t SET n = 1 WHERE id = 1", "its TTL is no number"),
        ("UPDATE k.t USING TTL -5 SET n = 1 WHERE id = 1", "its TTL is no number"),
    ],
)
def test_statements_that_are_not_an_events_are_refused(text: str, says: str) -> None:
    with pytest.raises(Refused) as raised:
        statement.parse(text)
    assert says in raised.value.what


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*), max(n), MIN(n), sum(n), avg(n), ttl(n), writetime(n) FROM k.t",
        "SELECT cast(n AS text), (int) n, token(id), to_json(m), map_keys(m) FROM k.t",
        "SELECT (text) n FROM k.t WHERE token(id) > token(:id) AND (c, d) > (1, 2)",
        "SELECT n FROM k.t WHERE id IN (1, 2) AND (c, d) IN ((1, 2), (3, 4)) LIMIT 1",
        "SELECT n FROM k.t WHERE (c, d) > (1, 2)",
        "INSERT INTO k.t(id, at) VALUES(1, to_timestamp(mintimeuuid('2024-01-01 00:00+0000')))",
        "INSERT INTO k.\"T\" (id, b) VALUES (1, textAsBlob((text) 'x'))",
        "INSERT INTO k.t (id, m) VALUES (1, {'a': (1, 'x'), 'b': (2, [3])})",
        "UPDATE k.t SET b = int_as_blob(1), n = (int) 5, u = (bigint) :n, t = (1, 2) WHERE id = 1",
        "UPDATE k.t SET l = (frozen<list<int>>) [1, 2] WHERE id = 1",
        "DELETE FROM k.t WHERE id = blob_as_int(0x00000001)",
    ],
)
def test_functions_that_give_the_same_value_each_time_and_conversions_are_accepted(
    text: str,
) -> None:
    statement.parse(text)


@pytest.mark.parametrize("value", ["(int) n", "(int) 5 + n", "(a) - (b)"])
def test_a_conversion_hides_no_column(value: str) -> None:
    with pytest.raises(Refused) as raised:
        statement.parse(f"UPDATE k.t SET n = {value} WHERE id = 1")
    assert "is not the same if it is sent twice" in raised.value.what


def test_a_statement_is_sent_with_its_write_time_and_its_parameters_as_json() -> None:
    found = statement.parse(
        "update k.\"T\" USING TTL 60 SET n = :n, note = 'it''s; :x', m = {'a': 1}"
        " where id = :id AND c = 5;"
    )
    assert found.kind is StatementKind.UPDATE
    assert (found.name, found.columns, set(found.key)) == ("k.T", ("n", "note", "m"), {"id", "c"})
    assert found.parameters == {"n", "id"}
    assert found.cql == (
        'UPDATE "k"."T" USING TIMESTAMP :tidemark_write_time AND TTL 60 SET "n" = fromJson(:n),'
        " \"note\" = 'it''s; :x', \"m\" = { 'a' : 1 } WHERE id = fromJson(:id) AND c = 5"
    )


def test_a_statement_is_parsed_for_another_keyspace_with_what_is_left_of_its_ttl() -> None:
    text = "UPDATE k.t USING TTL 60 SET n = 'k.t' WHERE id = :id"
    found = statement.parse(text, Elsewhere({"k": "copy", "t": "x"}, age=45))
    assert found.cql == (
        'UPDATE "copy"."t" USING TIMESTAMP :tidemark_write_time AND TTL 15 SET "n" = \'k.t\''
        " WHERE id = fromJson(:id)"
    )
    assert statement.parse(text, Elsewhere(age=61)).ttl == 1
    assert statement.parse(text.replace("60", "0"), Elsewhere(age=61)).ttl is None
    found = statement.parse('DELETE FROM "K".t WHERE id = 1', Elsewhere({"k": "copy"}))
    assert found.name == "K.t"


def test_a_uuid_is_one_value_whatever_it_begins_with() -> None:
    text = "DELETE FROM k.t WHERE id = ab12cd34-0000-4000-8000-0123456789ab AND n = -5"
    found = statement.parse(text)
    assert [[token.text for token in value] for value in found.key.values()] == [
        ["ab12cd34-0000-4000-8000-0123456789ab"],
        ["-5"],
    ]
