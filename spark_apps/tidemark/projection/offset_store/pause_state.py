"""Whether a projection is paused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.projection.definition.model import Definition
from tidemark.settings import Settings

TABLE = "projection_management"


@dataclass(frozen=True)
class Standing:
    """What was said of a projection by hand, last by whom and when."""

    paused: bool = False
    revision: int = 0
    owner: str = ""
    last_updated: datetime | None = None

    def __str__(self) -> str:
        """For people."""
        if self.last_updated is None:
            return "never paused"
        what = "paused" if self.paused else "resumed"
        return f"{what} {self.last_updated:%Y-%m-%d %H:%M} UTC by {self.owner}"


def standing(control: Control, settings: Settings, definition: Definition) -> Standing:
    """How a projection stands."""
    rows = control.execute(
        "SELECT paused, revision, owner, last_updated"
        f" FROM {table(settings.keyspace, TABLE)} WHERE projection = ?",
        (definition.identity(settings.journal_keyspace),),
    )
    return Standing(**rows[0]) if rows else Standing()


def unpaused(
    run: RunContext, definitions: Sequence[Definition], say: Callable[[str], None]
) -> list[Definition]:
    """The definitions that a run may process; of the others `say` gets a line each."""
    going = []
    for definition in definitions:
        now = standing(run.control, run.settings, definition)
        if now.paused:
            say(f"{definition.name}: left out, {now}; `project.py resume {definition.name}`")
        else:
            going.append(definition)
    return going
