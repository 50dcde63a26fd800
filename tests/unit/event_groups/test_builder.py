"""Event groups that are built in Python are those of the file form, and are refused as those."""

from __future__ import annotations

import runpy
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from tests.docs_commands import ROOT, blocks
from tidemark.errors import DefinitionError
from tidemark.event_groups.builder import EventGroup, EventHandle, Jar, from_function, from_url, row
from tidemark.event_groups.definition.file import load
from tidemark.event_groups.definition.model import Group, JarLibrary

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
STRIPPED = TEXT.map(str.strip).filter(bool)
NAMES = [f"{letter}-{number}" for letter in "xy" for number in range(3)]
VALUES = st.recursive(
    TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
PARAMETERS = ("p", "q", "r")


@st.composite
def events(draw: st.DrawFn, place: int) -> dict[str, Any]:
    """Draw an event as a file has it, but for its default values."""
    selects = [name for number, name in enumerate(NAMES[:place]) if not number % 2]
    if not place % 2:
        event: dict[str, Any] = {"statement": "SELECT total FROM k.t"}
        own: dict[str, st.SearchStrategy[Any]] = {
            "expect": st.sampled_from(["one", "some", "none"])
        }
    else:
        given = draw(st.lists(st.sampled_from(PARAMETERS), unique=True))
        needed = draw(st.lists(st.sampled_from(PARAMETERS), unique=True)) if selects else []
        needed = [name for name in needed if name not in given]
        sets = "".join(f", {name} = :{name}" for name in (*given, *needed))
        event = {"statement": f"UPDATE k.t SET a = 'Ä\n\t\U0001f600 '''{sets} WHERE id = 1"}
        if given:
            event["values"] = {name: draw(VALUES) for name in given}
        event["needs"] = [
            {"event": draw(st.sampled_from(selects)), "as": name}
            | draw(st.sampled_from([{}, {"take": "other"}]))
            for name in needed
        ]
        back = {"statement": "DELETE FROM k.t WHERE id = :x", "values": {"x": draw(TEXT)}}
        own = {"rollback": st.sampled_from(["restore", "none", {"statements": [back]}])}
    own |= {
        "after": st.lists(st.sampled_from(NAMES[:place] or ["none"]), unique=True, min_size=1),
        "timeout": st.integers(1, 3600),
    }
    chosen = draw(st.fixed_dictionaries({}, optional=own))
    if not place:
        chosen.pop("after", None)
    event = {"name": NAMES[place], **event, **chosen}
    after = dict.fromkeys([*event.get("after", []), *(n["event"] for n in event.get("needs", []))])
    event["after"] = list(after)
    return {key: value for key, value in event.items() if value != []}


@st.composite
def groups(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a group as a file has it."""
    keys = st.dictionaries(STRIPPED, STRIPPED, min_size=1, max_size=2)
    rows = st.fixed_dictionaries({"table": st.just("k.t"), "key": keys})
    optional = {
        "rows": st.lists(rows, min_size=1, max_size=2),
        "policy": st.sampled_from(["all-for-one", "one-for-one"]),
    }
    return {
        "group": "g",
        **draw(st.fixed_dictionaries({}, optional=optional)),
        "events": [draw(events(place)) for place in range(draw(st.integers(1, len(NAMES))))],
    }


def built(form: dict[str, Any]) -> EventGroup:
    """Build the group of a file."""
    group = EventGroup(form["group"], rows=form.get("rows", []), policy=form.get("policy"))
    handles: dict[str, EventHandle] = {}
    for one in form["events"]:
        rollback = one.get("rollback")
        if isinstance(rollback, dict):
            rollback = [(back["statement"], back["values"]) for back in rollback["statements"]]
        needs = [
            handles[need["event"]].column(need.get("take", need["as"]), need["as"])
            for need in one.get("needs", [])
        ]
        of_needs = {need["event"] for need in one.get("needs", [])}
        # Those that follow from the needs need not be told.
        after = [handles[name] for name in one.get("after", []) if name not in of_needs]
        handles[one["name"]] = group.event(
            one["name"],
            one.get("statement"),
            values=one.get("values"),
            after=after,
            needs=needs,
            expect=one.get("expect"),
            rollback=rollback,
            timeout=one.get("timeout"),
        )
    return group


def in_order(group: Group) -> dict[str, Any]:
    """Return a group with the events that others wait for in order."""
    found = group.model_dump(by_alias=True, exclude_unset=True)
    for event in found["events"]:
        event["after"] = sorted(event.get("after", ()))
    return found


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(groups())
def test_a_group_that_is_built_and_saved_is_the_group_of_its_file(
    tmp_path: Path, form: dict[str, Any]
) -> None:
    file = tmp_path / "group.yaml"
    group = built(form)
    group.save(file)
    found = load(file)[0].group
    assert in_order(found) == in_order(Group.model_validate(form))
    assert found == group.definition().group


def test_the_docs_have_such_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = blocks(ROOT / "docs" / "event-groups.md", "python")
    (tmp_path / "script.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("script.py")
    keep = load(tmp_path / "correct-order-17.yaml")[0].events["keep-old"]
    assert (keep.after, keep.needs[0].as_, keep.needs[0].take) == (("read",), "old", "total")


def refusal(group: EventGroup) -> str:
    with pytest.raises(DefinitionError) as raised:
        group.definition()
    return str(raised.value)


def test_what_a_file_is_refused_for_a_built_group_is_refused_for_at_its_event(
    tmp_path: Path,
) -> None:
    group = EventGroup("g", rows=[row("t", id=1)])
    assert refusal(group) == "events is empty (group g); name at least one"
    read = group.event("read", "SELECT n FROM k.t")
    file = tmp_path / "group.yaml"
    with pytest.raises(DefinitionError, match=r"t is no table with its keyspace \(row 1 of group"):
        group.save(file)
    assert not file.exists()
    group = EventGroup("g")
    read = group.event("read", "SELECT n FROM k.t")
    group.event("write", "UPDATE k.t SET n = :m WHERE id = 1", needs=[read.column("n")])
    missing = "the parameter m has no value (event write of group g); add `values: {m: ...}`"
    assert refusal(group) == missing
    assert (
        refusal_of("Big")
        == "name cannot be 'Big' (event Big of group g); write it in the right form"
    )
    assert refusal_of("e", timeout=0).startswith("timeout cannot be")
    assert "(event e of group g); write at least 1" in refusal_of("e", timeout=0)
    assert "half of a character, without its other half (group g)" in refusal_of("e", "\ud83d")
    deep: object = "x"
    for _ in range(25):
        deep = [deep]
    write = "UPDATE k.t SET n = :n WHERE id = 1"
    assert "the lists go too deep (group g)" in refusal_of("e", write, values={"n": deep})


def refusal_of(name: str, *arguments: Any, **more: Any) -> str:
    group = EventGroup("g")
    group.event(name, *arguments, **more)
    return refusal(group)


def test_an_event_waits_for_events_of_its_own_group_only() -> None:
    other = EventGroup("other").event("read", "SELECT n FROM k.t")
    group = EventGroup("g")
    with pytest.raises(DefinitionError, match=r"the event read is of another group \(event e of"):
        group.event("e", after=[other])
    with pytest.raises(DefinitionError, match="the event read is of another group"):
        group.event("e", "DELETE FROM k.t WHERE id = :n", needs=[other.column("n")])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (17, "17"),
        (True, "true"),
        (1.5, "1.5"),
        (float("inf"), "Infinity"),
        (Decimal("12.50"), "12.50"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"\x00\xff", "0x00ff"),
        (date(2024, 3, 1), "2024-03-01"),
        (time(1, 2, 3), "01:02:03"),
        (datetime(2024, 3, 1, tzinfo=UTC), "2024-03-01T00:00:00.000+00:00"),
        (
            datetime(2024, 3, 1, tzinfo=timezone(timedelta(hours=1))),
            "2024-02-29T23:00:00.000+00:00",
        ),
        ({3, 20, 1}, ["1", "20", "3"]),
        ((1, [2]), ["1", ["2"]]),
        ({1: {"a": 2}}, {"1": {"a": "2"}}),
    ],
)
def test_values_of_python_are_texts_that_cassandra_takes(value: object, text: object) -> None:
    group = EventGroup("g")
    group.event("e", "UPDATE k.t SET n = :n WHERE id = 1", values={"n": value})
    assert group.definition().group.events[0].values == {"n": text}


@pytest.mark.parametrize("value", [object(), [object()], datetime(2024, 3, 1), {(1, 2): 1}])
def test_values_that_are_no_text_are_refused(value: object) -> None:
    with pytest.raises(DefinitionError, match=r"\(event e of group g\)"):
        EventGroup("g").event("e", "DELETE FROM k.t WHERE id = :n", values={"n": value})


def test_all_that_a_file_can_say_can_be_said_in_python(tmp_path: Path) -> None:
    inner = EventGroup("tidy-up")
    inner.event("nothing")
    after = [{"if": "done", "submit": inner}, {"http": "http://a/b", "ack": True, "timeout": 3}]
    group = EventGroup("all", hooks={"after": after, "helpers": ["m:serve"]})
    loads = group.event("load", library=("shop-rules", "1.2"))
    jar = Jar("org.example:geo", "1.0", {"f": "org.example.F"})
    geo = group.event("load-geo", library=jar, after=[loads])
    read = group.event("read", "SELECT n, m FROM k.t", many=True)
    few = group.event("few", "SELECT n FROM k.t WHERE id = 1", after=[loads])
    group.event(
        "write",
        "UPDATE k.t SET a = :a, b = :b, c = :c, d = :d WHERE id = 1",
        needs=[
            few.sql("n + 1", as_="a"),
            few.call("m:f", as_="b", timeout=3),
            from_function("m:g", as_="c"),
            from_url("http://a/b", as_="d"),
        ],
        rollback="m:back",
        hooks={"before": [{"call": "m:told"}]},
        after=[loads],
    )
    group.event(
        "each",
        "UPDATE k.t SET n = :n WHERE id = :m",
        each=read,
        needs=[read.sql("f(n)", as_="n"), read.column("m")],
        after=[geo],
    )
    group.save(tmp_path / "all.yaml")
    definition, _ = load(tmp_path / "all.yaml")
    assert definition.group == group.definition().group
    events = definition.events
    assert (events["read"].many, events["each"].each, events["each"].after) == (
        True,
        "read",
        ("load-geo", "read"),
    )
    assert events["load"].library is not None
    assert events["load"].library.version == "1.2"
    assert isinstance(events["load-geo"].library, JarLibrary)
    assert events["load-geo"].library.functions == jar.functions
    assert [need.call for need in events["write"].needs] == [None, "m:f", "m:g", None]
    submitted = definition.group.hooks.after[0].submit
    assert submitted is not None
    assert (submitted.group, definition.group.hooks.after[1].ack) == ("tidy-up", True)
