"""A plan that is saved in a file, to be run exactly as it was shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tidemark.application import saved_file
from tidemark.context import RunContext
from tidemark.errors import InvalidInput, TidemarkError
from tidemark.project.offset_store import management_state
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning.plan import ProjectionPlan
from tidemark.text import counted
from tidemark.window import Window, from_millis

FORMAT = 1


@dataclass(frozen=True)
class SavedPiece:
    """A piece as it was planned; `time_bucket` is epoch ms."""

    time_bucket: int
    reason: str
    attempt: int
    is_held: bool


@dataclass(frozen=True)
class SavedProjection:
    """The part of one projection in a plan."""

    name: str
    fingerprint: str
    revision: int
    pieces: Sequence[SavedPiece]


@dataclass(frozen=True)
class SavedPlan:
    """A plan, with the state of the projections when it was made.

    Attributes:
        window_start: ISO 8601.
        window_end: ISO 8601, exclusive.
        force: whether done buckets were planned too.
        planned_at: ISO 8601.
        works: the projections that had pieces to process.
    """

    journal_keyspace: str
    window_start: str
    window_end: str
    force: bool
    planned_at: str
    works: Sequence[SavedProjection]

    @classmethod
    def load(cls, file: Path) -> SavedPlan:
        """Read a plan that `save` has written.

        Raises:
            InvalidInput: the file cannot be read, or is not a plan.
        """
        return saved_file.load(file, FORMAT, cls._read, "project.py plan --save FILE")

    @classmethod
    def _read(cls, content: dict[str, Any]) -> SavedPlan:
        works = [_work(work) for work in content.pop("works")]
        return cls(**content, works=works)

    def save(self, file: Path) -> None:
        """Write the plan as JSON.

        Raises:
            InvalidInput: the file cannot be written.
        """
        saved_file.save(file, FORMAT, asdict(self))

    @property
    def window(self) -> Window:
        """The window that the plan was made for."""
        return Window.parse(self.window_start, self.window_end)

    @property
    def names(self) -> list[str]:
        """The names of the projections that had pieces to process."""
        return [saved.name for saved in self.works]

    def require_journal(self, journal_keyspace: str) -> None:
        """Require that the plan was made for this journal.

        Raises:
            InvalidInput: it was made for another one.
        """
        if journal_keyspace != self.journal_keyspace:
            raise InvalidInput(
                f"the plan is for the journal {self.journal_keyspace}, not {journal_keyspace}",
                where="TIDEMARK_JOURNAL_KEYSPACE",
                do="set it, or make a new plan",
            )

    def restricted(self, run: RunContext, plan: ProjectionPlan) -> ProjectionPlan:
        """Return a projection's present plan without pieces added since this plan was saved.

        Raises:
            TidemarkError: a saved piece, the definition or the offsets have changed since.
        """
        saved = next(work for work in self.works if work.name == plan.definition.name)
        if problem := _difference(saved, saved_projection(run, plan)):
            raise TidemarkError(
                f"the plan of {self.planned_at} is out of date: {problem}",
                where=plan.definition.name,
                do="make a new one with `project.py plan`",
            )
        saved_buckets = {piece.time_bucket for piece in saved.pieces}
        return replace(
            plan,
            pieces=[piece for piece in plan.pieces if piece.time_bucket in saved_buckets],
            held=plan.held & saved_buckets,
        )


def saved_projection(run: RunContext, plan: ProjectionPlan) -> SavedProjection:
    """Return the present part of one projection in a plan."""
    return SavedProjection(
        plan.definition.name,
        plan.definition.fingerprint,
        management_state.revision(OffsetStore.of(run, plan.definition)).revision,
        [
            SavedPiece(
                piece.time_bucket,
                str(piece.reason),
                piece.attempt,
                piece.time_bucket in plan.held,
            )
            for piece in plan.pieces
        ],
    )


def _work(content: Mapping[str, Any]) -> SavedProjection:
    pieces = [SavedPiece(**piece) for piece in content["pieces"]]
    return SavedProjection(**{**content, "pieces": pieces})


def _difference(saved: SavedProjection, now: SavedProjection) -> str:
    """Describe a change since the plan was saved, ignoring new pieces; empty if there is none."""
    if saved.fingerprint != now.fingerprint:
        return f"the definition was {saved.fingerprint} and is {now.fingerprint}"
    if saved.revision != now.revision:
        return f"its offsets were changed by hand {now.revision - saved.revision} times since"
    present_pieces = {piece.time_bucket: piece for piece in now.pieces}
    changed = [piece for piece in saved.pieces if present_pieces.get(piece.time_bucket) != piece]
    if not changed:
        return ""
    first_changed, moment = changed[0], from_millis(changed[0].time_bucket)
    first_present = present_pieces.get(first_changed.time_bucket)
    return (
        f"{counted(len(changed), 'piece')} moved since, the first is"
        f" {moment:%Y-%m-%d %H:%M}, which was {_piece_state(first_changed)} and is"
        f" {_piece_state(first_present) if first_present else 'done'}"
    )


def _piece_state(piece: SavedPiece) -> str:
    held = ", held" if piece.is_held else ""
    return f"{piece.reason} at attempt {piece.attempt}{held}"
