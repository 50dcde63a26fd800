"""Readers that are given up, so that their needs no longer count."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.ledger import applications
from tidemark.ledger.pieces import Pieces
from tidemark.purge.needs import readers
from tidemark.purge.needs.readers import Reader
from tidemark.purge.needs.tag_views import absent_projections


@dataclass(frozen=True)
class GivenUp:
    """The readers that are given up.

    Attributes:
        subjects: the projections without a file, by their names in the ledger.
        readers: the rows of external readers.
    """

    subjects: tuple[str, ...] = ()
    readers: tuple[Reader, ...] = ()

    def __bool__(self) -> bool:
        """Return whether anything is given up."""
        return bool(self.subjects or self.readers)

    def lines(self) -> list[str]:
        """Return a line for each, for the plan and so for the audit."""
        names = [subject.partition("/")[2] for subject in self.subjects]
        rows = sorted({(reader.name, reader.reads) for reader in self.readers})
        return [
            *(f"gives up the projection {name}: its pieces are dropped" for name in names),
            *(f"gives up the reader {name} of {reads}" for name, reads in rows),
        ]

    def forget(self, run: RunContext) -> None:
        """Delete the pieces of the projections and the rows of the readers; repeatable."""
        for subject in self.subjects:
            Pieces.of(run.control, run.settings, applications.PROJECT, subject).forget()
        readers.forget(run.control, run.settings, self.readers)


def find_given_up(run: RunContext, names: Collection[str]) -> GivenUp:
    """Find the readers of these names.

    Raises:
        InvalidInput: a name is of a projection that has a file, or is unknown.
    """
    if not names:
        return GivenUp()
    absent = absent_projections(run.control, run.settings)
    registered = readers.readers_of(run.control, run.settings)
    candidates = {need.projection for need in absent} | {reader.name for reader in registered}
    if unknown := sorted(set(names) - candidates):
        raise InvalidInput(
            f"{', '.join(unknown)}: only a projection that ran and has no file, or a reader that is"
            " registered, can be given up",
            where="--give-up",
            do="pause or drop a projection that has a file with `project`",
        )
    return GivenUp(
        tuple(need.subject for need in absent if need.projection in names),
        tuple(reader for reader in registered if reader.name in names),
    )
