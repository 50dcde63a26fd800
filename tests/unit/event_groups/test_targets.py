"""Which DAGs, assets and topics the hooks of event groups may have, at submission and later."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidemark.errors import DefinitionError
from tidemark.event_groups.definition import file
from tidemark.event_groups.definition.model import Hook
from tidemark.event_groups.execution import hooks
from tidemark.event_groups.external import check, targets
from tidemark.event_groups.stream.deliveries import Notice
from tidemark.settings import Settings

TARGETS = [
    ("dag", "page-somebody", "DAG", "DAGS"),
    ("asset", "x://reports", "asset", "ASSETS"),
    ("kafka", "corrections", "topic", "TOPICS"),
]


@pytest.mark.parametrize(("key", "name", "kind", "setting"), TARGETS)
def test_a_hook_to_a_target_that_is_not_allowed_is_rejected_at_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, name: str, kind: str, setting: str
) -> None:
    group = tmp_path / "group.yaml"
    group.write_text(
        "\n".join(
            [
                "group: g",
                f"hooks: {{after: [{{{key}: '{name}'}}]}}",
                "events: [{name: a}]",
            ]
        )
    )
    definition, fault = file.load(group)

    def checked(allowed: str) -> None:
        monkeypatch.setenv(f"TIDEMARK_EVENT_GROUP_{setting}", allowed)
        check.check(Settings.load(), definition, fault, [])

    for others in ("", f"{name}-2, x", "*"):
        with pytest.raises(DefinitionError) as raised:
            checked(others)
        assert raised.value.what == f"the {kind} {name} is not allowed"
        assert raised.value.where == f"{group}:2:{len('hooks: {after: [{') + len(key) + 3}"
        assert f"TIDEMARK_EVENT_GROUP_{setting}" in raised.value.do
    checked(f"other, {name}")


def test_an_asset_is_the_same_with_the_slash_that_airflow_appends() -> None:
    settings = Settings(event_group_assets="x://a/,x://b")
    assert [targets.refusal(settings, Hook(asset=uri))[0] for uri in ("x://a", "x://b/")] == [
        "",
        "",
    ]


@pytest.mark.parametrize(("key", "name", "kind", "setting"), TARGETS)
def test_a_notice_is_not_sent_to_a_target_that_is_no_longer_allowed(
    monkeypatch: pytest.MonkeyPatch, key: str, name: str, kind: str, setting: str
) -> None:
    def sends(*_: object) -> None:
        raise AssertionError("it was sent")

    recorded: list[Any] = []
    monkeypatch.setattr(hooks.HookTeller, "_sender", lambda *_: sends)
    monkeypatch.setattr(hooks, "Deliveries", lambda *_: SimpleNamespace(record=record))

    def record(group: str, own: object, delivery: Any) -> None:
        recorded.append(delivery)

    run = SimpleNamespace(settings=Settings())
    stream, group = SimpleNamespace(name="default"), SimpleNamespace(id="g", sequence=1)
    teller = hooks.HookTeller(*cast("Any", (run, stream, group, None)))
    hook = Hook.model_validate_json(json.dumps({key: name, "ack": True}))
    told = teller._deliver(hook, Notice("write", "done", 0), "")
    assert told == f"{key} {name} has not acknowledged: the {kind} {name} is not allowed"
    [delivery] = recorded
    assert (delivery.state, delivery.attempts) == ("failed", 0)
