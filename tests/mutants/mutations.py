"""The mutants of a module: its text, changed in one place."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.operators.provider import OperatorProvider
from parso.python.tree import PythonNode
from parso.tree import BaseNode, Leaf, NodeOrLeaf

COMPARISONS = (
    *("Lt_LtE", "Lt_NotEq", "LtE_Lt", "LtE_Eq", "Gt_GtE", "Gt_NotEq", "GtE_Gt", "GtE_Eq"),
    *("Eq_NotEq", "Eq_LtE", "Eq_GtE", "NotEq_Eq", "NotEq_Lt", "NotEq_Gt", "Is_IsNot", "IsNot_Is"),
)
"""Of the replacements of a comparison those that are hardest to notice: whoever notices them
notices the others."""
ARITHMETIC = (
    *("Add_Sub", "Sub_Add", "Mul_FloorDiv", "FloorDiv_Mul", "Div_Mul", "Mod_FloorDiv", "Pow_Mul"),
    *("BitAnd_BitOr", "BitOr_BitAnd", "BitXor_BitOr", "LShift_RShift", "RShift_LShift"),
)
OTHERS = (
    *("ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Invert"),
    *("ReplaceUnaryOperator_Delete_Not", "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue"),
    *("ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceBreakWithContinue"),
    *("ReplaceContinueWithBreak", "NumberReplacer", "RemoveDecorator", "ZeroIterationForLoop"),
)
PAIRS = (
    *(("min", "max"), ("any", "all"), ("bisect_left", "bisect_right"), ("in", "not in")),
    *(("greatest", "least"), ("first", "last"), ("lag", "lead"), ("row_number", "dense_rank")),
    *(("asc", "desc"), ("isNull", "isNotNull"), ("isnull", "isnotnull")),
    *(('"left_semi"', '"left_anti"'), ('"left"', '"inner"'), ('"little"', '"big"')),
)
"""Words that stand for each other's opposite, most of them of Spark, which cosmic-ray does not
know."""
OF_SPARK = ("first", "last", "lag", "lead")
"""Words that are others' names, too, unless `F.` precedes them."""
SWAPPED = {word: other for pair in PAIRS for word, other in (pair, pair[::-1])}


class SwapWords(Operator):  # type: ignore[misc]
    """Replaces a word by its opposite."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[tuple[Any, Any]]:
        if _word(node) in SWAPPED and not _is_other_word(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: NodeOrLeaf, index: int) -> Leaf:
        return _leaf_in_place_of(node, SWAPPED[_word(node)])

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


class RemoveStatement(Operator):  # type: ignore[misc]
    """Replaces a call, an augmented assignment or a raise by `pass`."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[tuple[Any, Any]]:
        if isinstance(node, PythonNode) and node.type == "simple_stmt":
            statement = node.children[0]
            is_assignment = statement.type == "expr_stmt"
            is_augmented = is_assignment and _word(statement.children[1]).removesuffix("=") != ""
            if statement.type in ("atom_expr", "power", "raise_stmt") or is_augmented:
                yield statement.start_pos, statement.end_pos

    def mutate(self, node: PythonNode, index: int) -> PythonNode:
        node.children[0] = _leaf_in_place_of(node.children[0], "pass")
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


@dataclass(frozen=True)
class Mutant:
    """A module with one change.

    Attributes:
        definition: the function or class in which the change is, empty outside of any.
        before: the changed lines, as they are in the module.
        after: the same lines of the mutant; empty if they are removed.
        text: the text of the whole module.
    """

    definition: str
    before: str
    after: str
    text: str


def mutants_of(source: str) -> Iterator[Mutant]:
    """Yield the mutants of a module, without those that mean the same as it or as another one."""
    seen = {_meaning(source)}
    for operator in _operators():
        for occurrence in count():
            text = mutate_code(source, operator, occurrence)
            if text is None:
                break
            try:
                meaning = _meaning(text)
            except SyntaxError:
                continue
            if meaning not in seen:
                seen.add(meaning)
                yield _mutant(source, text)


def _operators() -> Iterator[Operator]:
    provider = OperatorProvider()
    names = [f"ReplaceComparisonOperator_{name}" for name in COMPARISONS]
    names += [f"ReplaceBinaryOperator_{name}" for name in ARITHMETIC]
    for name in (*names, *OTHERS):
        yield provider[name]()
    yield SwapWords()
    yield RemoveStatement()


def _leaf_in_place_of(node: NodeOrLeaf, text: str) -> Leaf:
    first: Any = node
    return Leaf(text, node.start_pos, prefix=first.get_first_leaf().prefix)


def _word(node: NodeOrLeaf) -> str:
    """Return the word of a leaf, or the operator `not in`, which has two."""
    leaves = node.children if node.type == "comp_op" and isinstance(node, BaseNode) else [node]
    return " ".join(leaf.value for leaf in leaves if isinstance(leaf, Leaf))


def _is_other_word(node: Any) -> bool:
    """Tell whether a word is the `in` of a loop, or a name that only looks like Spark's."""
    if _word(node) == "in":
        return bool(node.parent.type != "comparison")
    dot = node.get_previous_leaf()
    before = None if dot is None else dot.get_previous_leaf()
    is_of_spark = before is not None and _word(before) == "F"
    return _word(node) in OF_SPARK and not is_of_spark


def _meaning(text: str) -> str:
    """Return what Python makes of a module, without what is there for mypy.

    This is annotations, which are not evaluated, and `frozen`, which says that nobody writes.
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.keyword) and node.arg == "frozen":
            node.value = ast.Constant(True)
    return ast.dump(tree)


def _mutant(source: str, text: str) -> Mutant:
    lines, others = source.splitlines(), text.splitlines()
    blocks = difflib.SequenceMatcher(None, lines, others, autojunk=False).get_opcodes()
    first, last, begin, end = next(places for kind, *places in reversed(blocks) if kind != "equal")
    return Mutant(
        _definition(source, first + 1), _joined(lines[first:last]), _joined(others[begin:end]), text
    )


def _joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines)


def _definition(source: str, line: int) -> str:
    """Return the dotted name of the innermost function or class that has a line."""
    names = []
    nodes: list[ast.stmt] = ast.parse(source).body
    while nodes:
        around = [
            node
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            and min([node.lineno, *(one.lineno for one in node.decorator_list)]) <= line
            and line <= (node.end_lineno or 0)
        ]
        names += [node.name for node in around]
        nodes = around[0].body if around else []
    return ".".join(names)
