"""Which files of the repository a Python file needs, as far as its text shows.

These are the modules that it imports, the modules and files that it names in strings and paths, and
the applications that it starts by their names.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

SOURCES = ("spark_apps", "plugins")
"""Directories that Python's path has in the tests, beside the repository's root."""
APPLICATIONS = "spark_apps"
STARTERS = ("tests", "embedded", "benchmarks", "examples")
"""Directories whose files start an application by its name, such as "tag_write". Elsewhere such a
string is only a word: of the ledger, or the id of a DAG."""
SAID_ONLY = (
    "spark_apps/tidemark/installation/__init__.py",
    "spark_apps/tidemark/settings.py",
    "spark_apps/tidemark/setting_groups/event_groups.py",
    "embedded/paths.py",
    "tests/conftest.py",
    "tests/integration/kafka_topic.py",
    "tests/scheduling/affected.py",
    "tests/scheduling/plan.py",
    "tests/scheduling/references.py",
)
"""Modules whose strings only look like names of files and applications, or are defaults: what reads
the files names them, too."""
WRITES_ONLY = "._note"
"""A method of the tests that writes rows of the ledger with the name of an application."""
USERS_FILES = "users_files"
"""The function of the library that returns a path below `include`."""
TEMPORARY = "tmp_path"
"""Paths in temporary directories may have names of the repository's."""
_EVERYWHERE = {"__init__.py", "__main__.py", "conftest.py"}
_OWN_MODULE = re.compile(
    r"\b(?:tidemark|tidemark_airflow|tests|embedded|examples|benchmarks)(?:\.\w+)+"
)


class Repository:
    """The files of the repository, and how Python finds its modules among them.

    Args:
        texts: Files by their paths from the root, with `/`; of files other than Python's the text
            does not matter. Deleted files may be among them, so that what still imports them
            refers to them.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self._trees: dict[str, ast.Module] = {}
        self.applications: dict[str, str] = {}
        """The scripts of the applications by their names."""
        self._below: dict[str, set[str]] = defaultdict(set)
        self._called: dict[str, set[str]] = defaultdict(set)
        self._modules: dict[str, str] = {}
        for file in sorted(texts):
            path = PurePosixPath(file)
            self._called[path.name].add(file)
            for directory in path.parents[:-1]:
                self._below[str(directory)].add(file)
            if path.suffix == ".py":
                self._modules |= dict.fromkeys(_module_names(path), file)
                if str(path.parent) == APPLICATIONS:
                    self.applications[path.stem] = file

    def tree(self, file: str) -> ast.Module:
        """Return the syntax tree of a Python file."""
        if file not in self._trees:
            self._trees[file] = ast.parse(self.texts[file])
        return self._trees[file]

    def at(self, path: str) -> set[str]:
        """Return the file of a path from the root, or all files of a directory."""
        return {path} if path in self.texts else self._below.get(path, set())

    def called(self, name: str) -> set[str]:
        """Return the files of a name, in whichever directory."""
        return set() if name in _EVERYWHERE else self._called.get(name, set())

    def module(self, name: str) -> str | None:
        """Return the file of a module or package."""
        return self._modules.get(name)

    def modules_in(self, package: str) -> list[str]:
        """Return the names of the modules and packages directly in a package."""
        return [name for name in self._modules if name.rpartition(".")[0] == package]

    def origin(self, module: str, name: str) -> str:
        """Return the module in which a name is defined that others import from a package."""
        file = self.module(module)
        if file is None or not file.endswith("/__init__.py"):
            return module
        for node in ast.walk(self.tree(file)):
            if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
                inner = f"{node.module}.{name}"
                return inner if inner in self._modules else f"{node.module}"
        return f"{module}.{name}"


@dataclass(frozen=True)
class References:
    """What a file needs directly."""

    needed: frozenset[str]
    """Files that count with all that they need."""
    run: frozenset[str]
    """Packages that Python runs on the way to their modules: they count with what they import at
    their top, and not with what they pass on."""


def references(file: str, repository: Repository) -> References:
    """Return the files that a file needs directly; only Python files need any."""
    if not file.endswith(".py"):
        return References(frozenset(), frozenset())
    nodes = [*ast.walk(repository.tree(file))]
    texts = [*_texts(nodes)]
    modules = {
        *_imported(nodes, repository),
        *_modules_in_texts(texts, repository),
        *_modules_started(nodes),
    }
    needed = _files(modules, repository)
    starts = file.partition("/")[0] in STARTERS
    if file not in SAID_ONLY:
        needed |= _files_in_texts(texts, repository)
        needed |= _files_in_paths(nodes, repository, starts)
        needed |= _files_beside(nodes, str(PurePosixPath(file).parent), repository)
    if starts and file not in SAID_ONLY:
        scripts = repository.applications
        needed |= {scripts[text] for text in _words(nodes) if text in scripts}
    run = _files({package for name in modules for package in _above(name)}, repository)
    return References(frozenset(needed - {file}), frozenset(run - needed - {file}))


def run_at_once(file: str, repository: Repository) -> set[str]:
    """Return the files that a package needs whenever one of its modules is used."""
    top = repository.tree(file).body
    return _files(_imported(top, repository), repository)


def _files(modules: Iterable[str], repository: Repository) -> set[str]:
    return {file for name in modules if (file := repository.module(name))}


def _module_names(path: PurePosixPath) -> Iterator[str]:
    """Yield the names under which a module is imported."""
    parts = [part for part in path.with_suffix("").parts if part != "__init__"]
    yield ".".join(parts)
    if parts[0] in SOURCES:
        yield ".".join(parts[1:])


def _above(module: str) -> Iterator[str]:
    """Yield the packages that a module is in."""
    parts = module.split(".")
    for end in range(1, len(parts)):
        yield ".".join(parts[:end])


def _texts(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield all strings but docstrings."""
    said = set()
    for node in nodes:
        # In this order: a statement comes before what is in it.
        if isinstance(node, ast.Expr):
            said.add(id(node.value))
        elif (text := _text(node)) and id(node) not in said:
            yield text


def _words(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield all strings but the arguments of WRITES_ONLY."""
    written = set()
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(WRITES_ONLY):
            written |= {id(argument) for argument in node.args}
        elif (text := _text(node)) and id(node) not in written:
            yield text


def _imported(nodes: Iterable[ast.AST], repository: Repository) -> Iterator[str]:
    """Yield the modules that statements import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield (
                    name if repository.module(name) else repository.origin(node.module, alias.name)
                )


def _modules_in_texts(texts: Iterable[str], repository: Repository) -> Iterator[str]:
    """Yield the modules that strings name, such as code, or a package before a variable's name."""
    for text in texts:
        for name in _OWN_MODULE.findall(text):
            if text.endswith(f"{name}."):
                yield from repository.modules_in(name)
            # A name in a module, such as that of a function, is of that module.
            candidates = (name, *reversed([*_above(name)][1:]))
            yield from [found for found in candidates if repository.module(found)][:1]


def _modules_started(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the modules that stand after `-m` in a command."""
    for node in nodes:
        if isinstance(node, ast.List | ast.Tuple):
            words = [_text(element) for element in node.elts]
            for option, word in itertools.pairwise(words):
                if option == "-m" and word:
                    yield from (word, f"{word}.__main__")


def _files_in_texts(texts: Iterable[str], repository: Repository) -> set[str]:
    """Return the files that strings are the names or the paths of, and those of directories."""
    found = set()
    for text in texts:
        if "/" in text.strip("/"):
            found |= repository.at(text) | repository.at(f"include/{text}")
        elif "." in text:
            found |= repository.called(text)
    return found


def _files_in_paths(nodes: Iterable[ast.AST], repository: Repository, starts: bool) -> set[str]:
    """Return the files, and all files of the directories, whose paths `/` joins."""
    found = set()
    inner: set[ast.AST] = set()
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and node not in inner:
            parts = _parts(node, inner)
            if TEMPORARY in ast.unparse(parts[0]):
                continue
            words = [_text(part) for part in parts[1:]]
            named = "/".join(itertools.takewhile(bool, words))
            if named == APPLICATIONS and len(words) > 1:
                # The scripts that tests start are found by their names.
                found |= set() if starts else {*repository.applications.values()}
            else:
                found |= repository.at(named) | repository.at(f"include/{named}")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(USERS_FILES):
            found |= repository.at(f"include/{_text(node.args[0])}")
    return found


def _files_beside(nodes: Iterable[ast.AST], directory: str, repository: Repository) -> set[str]:
    """Return the files that paths from `__file__` name, and all files of such directories."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".with_name"):
            found |= repository.at(f"{directory}/{_text(node.args[0])}")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            start, *parts = _parts(node, set())
            if "__file__" in ast.unparse(start):
                named = "/".join(itertools.takewhile(bool, map(_text, parts)))
                found |= repository.at(f"{directory}/{named}") if named else set()
    return found


def _parts(node: ast.expr, inner: set[ast.AST]) -> list[ast.expr]:
    """Return what `/` joins, and add the divisions in it to `inner`."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)):
        return [node]
    inner.add(node)
    return [*_parts(node.left, inner), node.right]


def _text(node: ast.AST) -> str:
    """Return the text of a string; empty for all else."""
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return str(ast.literal_eval(node)) if is_text else ""
