"""Which test files a change can break: those that need a changed file, directly or not.

`references` says what a file needs. A test file also needs the `conftest.py` of its
directory and of those above. The rules of this module are about files that no text names.
"""

from __future__ import annotations

from fnmatch import fnmatch
from functools import cached_property
from pathlib import PurePosixPath

from tests.scheduling.references import References, Repository, references, run_at_once


class Dependencies:
    """What the test files of a repository need."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._direct: dict[str, References] = {}

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


def is_test_file(file: str) -> bool:
    """Return whether pytest collects tests of a file."""
    return fnmatch(file, "tests/*test_*.py") and PurePosixPath(file).name.startswith("test_")
