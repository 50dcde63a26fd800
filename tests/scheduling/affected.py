"""Which test files a change can break: those that need a changed file, directly or not.

`references` says what a file needs. A test file also needs the `conftest.py` of its directory and
of those above. If nothing says which tests need a file, all tests run.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path, PurePosixPath

from tests.scheduling.references import References, Repository, references, run_at_once

ALL_TESTS = (
    "pyproject.toml",
    "spark_apps/pyproject.toml",
    "requirements*.lock",
    "tests/conftest.py",
)
"""Patterns of files that all tests need: what is installed, and how pytest runs."""
OF_THE_TREE = (
    "tests/unit/test_clock.py",
    "tests/unit/test_docs.py",
    "tests/unit/test_layout.py",
    "tests/unit/test_requirements.py",
    "tests/unit/test_seams.py",
    "tests/unit/test_site.py",
    "tests/unit/test_words.py",
)
"""Tests that read whole directories of the repository; they always run."""
FOR_READERS = ("LICENSE", "mkdocs.yml", "*.png", ".secrets.baseline", ".ci/*", "benchmarks/*")
"""Patterns of files that at most OF_THE_TREE need if no test file names them, directly or not."""


class Dependencies:
    """What the test files of a repository need."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._direct: dict[str, References] = {}

    def knows(self, file: str) -> bool:
        """Return whether any test file needs a file."""
        return any(file in needed for needed in self._of_tests.values())

    def tests_of(self, files: Iterable[str]) -> set[str]:
        """Return the test files that need one of the files."""
        wanted = {*files}
        return {test for test, needed in self._of_tests.items() if wanted & needed}

    @cached_property
    def _of_tests(self) -> dict[str, set[str]]:
        return {test: self.of(test) for test in self.test_files}

    @cached_property
    def test_files(self) -> list[str]:
        """The test files, in the order of their paths."""
        return sorted(file for file in self._repository.texts if is_test_file(file))

    def of(self, file: str) -> set[str]:
        """Return all files that a file needs, directly or not, and itself."""
        found: set[str] = set()
        run: set[str] = set()
        left = {file, *self._conftests(file)}
        while left:
            one = left.pop()
            found.add(one)
            direct = self._references(one)
            new = direct.run - run
            run |= new
            left |= direct.needed.union(
                *(run_at_once(package, self._repository) for package in new)
            )
            left -= found
        return found | run

    def _references(self, file: str) -> References:
        if file not in self._direct:
            self._direct[file] = references(file, self._repository)
        return self._direct[file]

    def _conftests(self, file: str) -> list[str]:
        names = (str(directory / "conftest.py") for directory in PurePosixPath(file).parents)
        return [name for name in names if name in self._repository.texts]


@dataclass(frozen=True)
class Choice:
    """The test files that a change can break."""

    chosen: frozenset[str]
    left_out: frozenset[str]
    for_all: tuple[str, ...] = ()
    """Changed files for which all tests run."""
    read_by_none: tuple[str, ...] = ()
    """Changed files that no test but those of OF_THE_TREE needs."""

    def lines(self) -> Iterator[str]:
        """Yield what is to be said of the choice."""
        total = len(self.chosen | self.left_out)
        yield f"affected: {len(self.chosen)} of {total} test files, tests marked long left out"
        if self.for_all:
            yield f"affected: all, as any test may need {', '.join(self.for_all)}"
        if self.read_by_none:
            files = ", ".join(self.read_by_none)
            yield f"affected: no test but those of the complete tree needs {files}"
        by_directory: dict[str, list[str]] = defaultdict(list)
        for file in sorted(self.left_out):
            directory, _, name = file.rpartition("/")
            by_directory[directory].append(name.removeprefix("test_").removesuffix(".py"))
        for directory, names in by_directory.items():
            is_whole = not any(file.startswith(f"{directory}/") for file in self.chosen)
            which = "all" if is_whole else ", ".join(names)
            yield f"left out of {directory}: {which}"


def choose(changed: Iterable[str], dependencies: Dependencies) -> Choice:
    """Choose the test files that a change of files can break, and those of OF_THE_TREE."""
    files = sorted({*changed})
    everything = frozenset(dependencies.test_files)
    unknown = [file for file in files if not dependencies.knows(file)]
    by_none = tuple(file for file in unknown if _matches(file, FOR_READERS))
    for_all = tuple(
        file
        for file in files
        if _matches(file, ALL_TESTS) or (file in unknown and file not in by_none)
    )
    of_tree = everything.intersection(OF_THE_TREE) if files else frozenset()
    chosen = everything if for_all else of_tree | dependencies.tests_of(files)
    return Choice(frozenset(chosen), everything - chosen, for_all, by_none)


def changed_since(commit: str, root: Path) -> list[str]:
    """Return the files that differ from where this branch left a commit, committed or not.

    Raises:
        ValueError: Git does not know the commit.
    """
    base = _git(root, "merge-base", "HEAD", commit)
    names = _git(root, "diff", "--name-only", "--no-renames", "-z", base.strip())
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return sorted(name for name in f"{names}{new}".split("\0") if name)


def read(root: Path, changed: Iterable[str]) -> Repository:
    """Return the files of a checkout, and the changed ones that are deleted."""
    listed = _git(root, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
    names = {name for name in listed if (root / name).is_file()} | {*changed}
    return Repository({name: _text(root / name) for name in names})


def is_test_file(file: str) -> bool:
    """Return whether pytest collects tests of a file."""
    return file.startswith("tests/") and PurePosixPath(file).match("test_*.py")


def _text(file: Path) -> str:
    return file.read_text("utf-8") if file.suffix == ".py" and file.is_file() else ""


def _matches(file: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(file, pattern) for pattern in patterns)


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
