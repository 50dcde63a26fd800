"""Mutants: what is changed, and the tables of rooms and of survivors."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.mutations import mutants_of
from tests.mutants.table import LIBRARY, ROOT, Module, reasons, rooms

MODULES = [module for modules in rooms().values() for module in modules]

SOURCE = '''"""Numbers."""

from __future__ import annotations


def last(numbers: list[int] | None, most: int) -> int:
    """Return one."""
    if numbers is None or len(numbers) < most:
        raise ValueError(most)
    numbers.append(most)
    return max(numbers) + 1
'''


def test_a_mutant_differs_in_one_place_and_none_is_there_twice() -> None:
    made = list(mutants_of(SOURCE))
    assert len({mutant.text for mutant in made}) == len(made)
    assert {mutant.definition for mutant in made} == {"last"}
    condition = "if numbers is None or len(numbers) < most:"
    result = "return max(numbers) + 1"
    assert {(mutant.before, mutant.after) for mutant in made} == {
        (condition, "if numbers is not None or len(numbers) < most:"),
        (condition, "if numbers is None and len(numbers) < most:"),
        (condition, "if not numbers is None or len(numbers) < most:"),
        (condition, "if numbers is None or len(numbers) <= most:"),
        (condition, "if numbers is None or len(numbers) != most:"),
        ("raise ValueError(most)", "pass"),
        ("numbers.append(most)", "pass"),
        (result, "return max(numbers) - 1"),
        (result, "return max(numbers) + 2"),
        (result, "return max(numbers) + 0"),
        (result, "return min(numbers) + 1"),
    }


def test_what_only_mypy_sees_is_not_changed() -> None:
    source = (
        '@dataclass(frozen=True)\nclass C:\n    x: A | B\n    def f(self, a: "A | B") -> A: ...\n'
    )
    assert [mutant.before for mutant in mutants_of(source)] == ["@dataclass(frozen=True)"]


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("x = a in b", "x = a not in b"),
        ("x = a not in b", "x = a in b"),
        ('x = y.join(z, on, "left_semi")', 'x = y.join(z, on, "left_anti")'),
        ("x = F.least(a, b)", "x = F.greatest(a, b)"),
        ("x = F.last(a.first)", "x = F.first(a.first)"),
        ("def f():\n    self.x += y\n", "pass"),
    ],
)
def test_words_are_replaced_by_their_opposites_and_statements_removed(
    source: str, after: str
) -> None:
    assert after in [mutant.after for mutant in mutants_of(source)]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.path)
def test_a_module_of_a_room_exists_and_has_tests(module: Module) -> None:
    tree = ast.parse((ROOT / LIBRARY / module.path).read_text())
    assert set(module.only) <= {getattr(node, "name", "") for node in tree.body}
    assert module.tests
    assert [name for name in module.test_files if not (ROOT / name).is_file()] == []


def test_each_noted_survivor_can_still_be_made() -> None:
    paths = {module.path for module in MODULES}
    for place, reason in reasons().items():
        assert place.module in paths
        source = (ROOT / LIBRARY / place.module).read_text()
        text = " ".join(line.strip() for line in source.splitlines())
        assert place.before in text, place
        assert reason.strip(), place
