"""A plan that is kept in a file, and run exactly as it was shown."""

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
    """One projection's part of a plan."""

    name: str
    fingerprint: str
    revision: int
    pieces: Sequence[SavedPiece]


@dataclass(frozen=True)
class SavedPlan:
    """A plan, and what it was made upon.

    Attributes:
        journal_keyspace: whose events.
        window_start: ISO 8601.
        window_end: the same, exclusive.
        force: whether done buckets were planned too.
        planned_at: ISO 8601.
        works: the projections that had something to do.
    """

    journal_keyspace: str
    window_start: str
    window_end: str
    force: bool
    planned_at: str
    works: Sequence[SavedProjection]

    @classmethod
    def load(cls, file: Path) -> SavedPlan:
        """Read what `save` has written.

        Raises:
            InvalidInput: the file cannot be read, or is no plan.
        """
        return saved_file.load(file, FORMAT, cls._read, "project.py plan --save FILE")

    @classmethod
    def _read(cls, content: dict[str, Any]) -> SavedPlan:
        works = [_work(work) for work in content.pop("works")]
        return cls(**content, works=works)

    def save(self, file: Path) -> None:
        """Write it as JSON.

        Raises:
            InvalidInput: the file cannot be written.
        """
        saved_file.save(file, FORMAT, asdict(self))

    @property
    def window(self) -> Window:
        """What it was made for."""
        return Window.parse(self.window_start, self.window_end)

    @property
    def names(self) -> list[str]:
        """The projections that had something to do."""
        return [saved.name for saved in self.works]

    def require_journal(self, journal_keyspace: str) -> None:
        """Refuse the plan of another journal.

        Raises:
            InvalidInput: it is one.
        """
        if journal_keyspace != self.journal_keyspace:
            raise InvalidInput(
                f"the plan is for the journal {self.journal_keyspace}, not {journal_keyspace}",
                where="TIDEMARK_JOURNAL_KEYSPACE",
                do="set it, or make a new plan",
            )

    def restricted(self, run: RunContext, plan: ProjectionPlan) -> ProjectionPlan:
        """Return what was saved of a projection's present plan; what came since is left out.

        Raises:
            TidemarkError: a piece, the definition or the offsets are no longer as planned.
        """
        saved = next(work for work in self.works if work.name == plan.definition.name)
        if problem := _difference(saved, saved_projection(run, plan)):
            raise TidemarkError(
                f"the plan of {self.planned_at} is out of date: {problem}",
                where=plan.definition.name,
                do="make a new one with `project.py plan`",
            )
        wanted = {piece.time_bucket for piece in saved.pieces}
        return replace(
            plan,
            pieces=[piece for piece in plan.pieces if piece.time_bucket in wanted],
            held=plan.held & wanted,
        )


def saved_projection(run: RunContext, plan: ProjectionPlan) -> SavedProjection:
    """Return one projection's part of a plan in its present state."""
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
    """Describe what has changed since the plan was saved, new pieces aside; empty if nothing."""
    if saved.fingerprint != now.fingerprint:
        return f"the definition was {saved.fingerprint} and is {now.fingerprint}"
    if saved.revision != now.revision:
        return f"its offsets were changed by hand {now.revision - saved.revision} times since"
    present = {piece.time_bucket: piece for piece in now.pieces}
    changed = [piece for piece in saved.pieces if present.get(piece.time_bucket) != piece]
    if not changed:
        return ""
    was, moment = changed[0], from_millis(changed[0].time_bucket)
    at_present = present.get(was.time_bucket)
    return (
        f"{counted(len(changed), 'piece')} moved since, the first is"
        f" {moment:%Y-%m-%d %H:%M}, which was {_standing(was)} and is"
        f" {_standing(at_present) if at_present else 'done'}"
    )


def _standing(piece: SavedPiece) -> str:
    held = ", held" if piece.is_held else ""
    return f"{piece.reason} at attempt {piece.attempt}{held}"
