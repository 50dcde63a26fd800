"""The maker of the table of rooms in docs/architecture.md, out of `.importlinter`.

`python -m tests.rooms` writes it; a unit test fails when it is out of date.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
_LIBRARY = ROOT / "spark_apps" / "tidemark"
_HEADER = "| room | what it is for | its own rooms, the highest first |\n|---|---|---|\n"
_TABLE = re.compile(r"(?<=<!-- rooms -->\n).*(?=<!-- /rooms -->)", re.DOTALL)


def layers() -> dict[str, list[list[str]]]:
    """Return the layers of each package that has a contract, the highest first.

    Returns:
        By the package's dotted name: for each layer its modules and packages.
    """
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter")
    return {
        contract["containers"].strip(): [
            line.split(" | ") for line in contract["layers"].strip().splitlines()
        ]
        for contract in map(contracts.__getitem__, contracts.sections())
        if contract.get("type") == "layers"
    }


def page() -> str:
    """Return docs/architecture.md with the table as the contracts have it."""
    table = "".join([_HEADER, *_rows()])
    return _TABLE.sub(lambda _: table, PAGE.read_text())


def _rows() -> Iterator[str]:
    by_package = layers()
    for layer in by_package["tidemark"]:
        for room in layer:
            inner = by_package.get(f"tidemark.{room}", [])
            steps = " → ".join(", ".join(f"`{name}`" for name in names) for names in inner)
            yield f"| `{room}` | {_purpose(room)} | {steps} |\n"


def _purpose(room: str) -> str:
    """Return the first line of a room's docstring, without the name before a colon."""
    package = _LIBRARY / room / "__init__.py"
    file = package if package.exists() else _LIBRARY / f"{room}.py"
    line = (ast.get_docstring(ast.parse(file.read_text())) or "").splitlines()[0]
    return line.removeprefix(f"{room}: ").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
