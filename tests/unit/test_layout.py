"""The layout of the library: few modules in a package, none too long.

The rules of imports between packages are in .importlinter.
"""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from tests import rooms
from tests.unit.test_public_api import PUBLIC

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "spark_apps" / "tidemark"
HOUSES = (LIBRARY, ROOT / "plugins", ROOT / "embedded")
MODULES_IN_A_ROOM = 12
"""Modules of a package, beside `__init__`."""
LINES_OF_A_MODULE = 450
DEPTH = 4
"""Levels of packages below the library."""


def test_no_room_is_crowded() -> None:
    crowded = {
        str(room.relative_to(ROOT)): len(modules)
        for house in HOUSES
        for room in [house, *house.rglob("*/")]
        if len(modules := [file for file in room.glob("*.py") if file.stem != "__init__"])
        > MODULES_IN_A_ROOM
    }
    assert crowded == {}


def test_no_module_is_long() -> None:
    files = [file for house in HOUSES for file in house.rglob("*.py")]
    lines = {file: len(file.read_text().splitlines()) for file in files}
    long = {str(file.relative_to(ROOT)): n for file, n in lines.items() if n > LINES_OF_A_MODULE}
    assert long == {}


def test_no_room_lies_deeper_than_it_can_be_found() -> None:
    deep = [file for file in LIBRARY.rglob("*.py") if len(file.relative_to(LIBRARY).parts) > DEPTH]
    assert deep == []


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for file in (file for house in HOUSES for file in house.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_only_public_modules_pass_on_names_that_others_define() -> None:
    """Each name has one module to import it from: mypy rejects an import from any other."""
    passing_on = re.compile(r"^__all__\b|\bimport (\w+) as \1$", re.MULTILINE)
    files = {file for house in HOUSES for file in house.rglob("*.py")}
    modules = {file for file in files if passing_on.search(file.read_text())}
    public = [Path(str(importlib.import_module(name).__file__)) for name in PUBLIC]
    assert modules == set(public)


def test_every_room_says_what_it_is_for() -> None:
    rooms = {file.parent for house in HOUSES for file in house.rglob("*.py")} - {ROOT / "plugins"}
    silent = [room for room in rooms if not (room / "__init__.py").read_text().strip()]
    assert silent == []


def test_the_table_of_rooms_is_that_of_the_contracts() -> None:
    assert rooms.PAGE.read_text() == rooms.page(), "run `make schemas`"


def test_every_package_has_a_contract() -> None:
    modules = [file for file in LIBRARY.glob("*/*.py") if file.stem != "__init__"]
    packages = {f"tidemark.{module.parent.name}" for module in modules}
    assert packages - {"tidemark.projection"} <= set(rooms.layers())


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", rooms.PAGE])
def test_every_path_that_maintainers_are_sent_to_exists(page: Path) -> None:
    paths = re.findall(r"`([\w./-]+(?:\.py|/))`", page.read_text())
    missing = [
        path for path in paths if not any((base / path).exists() for base in (ROOT, LIBRARY))
    ]
    assert len(paths) > 15
    assert missing == []


def test_models_share_no_code_with_the_product() -> None:
    """What a model has from the product cannot be wrong in one of them; names of tables may be."""
    tests = ROOT / "tests"
    others = (tests / "live" / "truth.py", tests / "integration" / "replicate" / "kafka_reader.py")
    imported = re.compile(r"^(?:from|import) (tidemark(?!\.cassandra\.schema )\S*)", re.MULTILINE)
    sharing = {
        str(file.relative_to(ROOT)): modules
        for file in (*tests.rglob("*_model.py"), *others)
        if (modules := imported.findall(file.read_text()))
    }
    assert sharing == {}


def test_one_room_knows_what_spark_hides() -> None:
    hidden = re.compile(r"\._(jvm|jdf|jsparkSession|jsc|gateway)\b")
    named = [
        str(file.relative_to(ROOT))
        for file in LIBRARY.rglob("*.py")
        if file.parent.name != "spark" and hidden.search(file.read_text())
    ]
    assert named == []
