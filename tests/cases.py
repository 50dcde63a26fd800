"""The maker of tests/CASES.md, which lists the test of each named case of upstream_cases.txt.

`python -m tests.cases` writes the file; a unit test fails when it is out of date.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

TESTS = Path(__file__).parent
LIST = TESTS / "upstream_cases.txt"
TABLE = TESTS / "CASES.md"
BY_NAME = "tests/unit/test_upstream_cases.py::test_case"
TEST = re.compile(r"tests/(?:\w+/)*test_\w+\.py(?:::\w+(?:\[[^\]]*\])?)?")
HEAD = """\
# Named cases of other implementations

Made by `python -m tests.cases` from `upstream_cases.txt` and the names of the tests, not by hand.
The cases are those of akka-persistence-r2dbc and akka-projection-r2dbc, by spec, in short form, and
those of CleanupSpec of pekko-persistence-cassandra.
What they say of a stream is asked of runs of a batch: what one accepts, the next begins behind.
The other cases of pekko-persistence-cassandra are in `interop/`.
"""


@dataclass(frozen=True)
class Case:
    """A named case, with its tests, or with the reason why it does not apply to a batch."""

    spec: str
    name: str
    applies: bool
    where: str


def cases() -> Iterator[Case]:
    """Yield the cases of the list, in its order.

    Raises:
        ValueError: the list names a test that does not exist.
    """
    spec = ""
    for line in LIST.read_text().splitlines():
        if line.startswith("["):
            spec = line.strip("[]")
        elif line and not line.startswith("#"):
            name, bar, text = (part.strip() for part in line.partition("|"))
            where = text if bar else f"{BY_NAME}[{spec}: {name}]"
            for test in TEST.findall(where):
                _require(test)
            yield Case(spec, name, where.startswith("tests/"), where)


def _require(test: str) -> None:
    """Refuse the name of a test whose file, function or parameter does not exist."""
    path, _, rest = test.partition("::")
    function, _, parameter = rest.rstrip("]").partition("[")
    functions, strings = _names(TESTS.parent / path)
    if (function and function not in functions) or (parameter and parameter not in strings):
        raise ValueError(f"{LIST.name}: there is no test {test}")


@cache
def _names(file: Path) -> tuple[set[str], set[str]]:
    """Return the names of a file's functions, and its string constants."""
    if not file.exists():
        raise ValueError(f"{LIST.name}: there is no file {file.relative_to(TESTS.parent)}")
    nodes = list(ast.walk(ast.parse(file.read_text())))
    functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    values = {node.value for node in nodes if isinstance(node, ast.Constant)}
    return functions, {value for value in values if isinstance(value, str)}


def table() -> str:
    """Return the text of CASES.md."""
    listed = list(cases())
    tested = sum(case.applies for case in listed)
    lines = [
        HEAD,
        f"{len(listed)} cases: {tested} are tested, {len(listed) - tested} do not apply.",
    ]
    for spec, group in groupby(listed, key=lambda case: case.spec):
        lines += [
            "",
            f"## {spec}",
            "",
            "| case | tested by, or why it does not apply |",
            "|---|---|",
        ]
        lines += [f"| {case.name} | {TEST.sub(_as_code, case.where)} |" for case in group]
    return "\n".join(lines) + "\n"


def _as_code(test: re.Match[str]) -> str:
    return f"`{test[0].removeprefix('tests/')}`"


if __name__ == "__main__":
    TABLE.write_text(table())
