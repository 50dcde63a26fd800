"""The rooms, and the survivors whose reasons are noted."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = "spark_apps/tidemark"
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Module:
    """A module, and what judges its mutants.

    Attributes:
        room: the name of its room.
        path: the file, below the library.
        tests: the files of tests/unit that notice its mutants.
        only: the functions and classes to change; all if there are none.
        sample: the number of mutants to try; all if it is 0.
        spark: whether the tests need Spark.
    """

    room: str
    path: str
    tests: tuple[str, ...]
    only: tuple[str, ...] = ()
    sample: int = 0
    spark: bool = False

    @property
    def test_files(self) -> list[str]:
        """The files of the tests, below the root."""
        return [f"tests/unit/{name}" for name in self.tests]


@dataclass(frozen=True)
class Place:
    """What a survivor is known by, whatever moves around it."""

    module: str
    definition: str
    before: str
    after: str


def rooms() -> dict[str, list[Module]]:
    """Return the modules of each room."""
    table = tomllib.loads((_HERE / "rooms.toml").read_text())
    return {
        room: [_module(room, path, keys) for path, keys in modules.items()]
        for room, modules in table.items()
    }


def reasons() -> dict[Place, str]:
    """Return why survivors survive."""
    listed = tomllib.loads((_HERE / "survivors.toml").read_text())["survivor"]
    return {
        Place(entry["module"], entry["in"], entry["before"], entry["after"]): entry["reason"]
        for entry in listed
    }


def _module(room: str, path: str, keys: Mapping[str, object]) -> Module:
    lists = {key: tuple(value) if isinstance(value, list) else value for key, value in keys.items()}
    return Module(room, path, **lists)  # type: ignore[arg-type]
