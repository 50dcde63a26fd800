"""Checks whether a rollup is up to date with the read model that it reads, without Spark."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.cassandra.schema import default_time_to_live
from tidemark.context import RunContext
from tidemark.errors import SchemaMismatch
from tidemark.project.definition.catalog import Rollup
from tidemark.project.definition.model import Definition
from tidemark.project.offset_store import management_state, rolled_up
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.offset_store.rolled_up import RolledUp
from tidemark.project.planning import live_release
from tidemark.window import from_millis


@dataclass(frozen=True)
class RollupState:
    """The source state that a rollup was made from, and the present source state. No I/O.

    Attributes:
        made: None if the rollup was never made or was cleared.
        present: None until the source has processed a time bucket.
    """

    made: RolledUp | None
    present: RolledUp | None

    @property
    def reason(self) -> str:
        """Why a run makes the rollup; "" if it is up to date, or there are no rows to read."""
        made, present = self.made, self.present
        if present is None or made == present:
            return ""
        if made is None:
            return "new"
        if made.version != present.version:
            return "changed definition"
        if made.table != present.table:
            return "another version of its source is live"
        return "its source has changed"

    def line(self, rollup: Rollup) -> str:
        """Describe the state for reports."""
        if self.present is None:
            return f"{rollup.source.name} has processed nothing yet"
        if self.made is None:
            return "never made"
        at = from_millis(self.made.write_time // 1000)
        made = f"made from {self.made.table} as of {at:%Y-%m-%d %H:%M} UTC"
        return f"{made}, {self.reason or 'up to date'}"


def read(run: RunContext, rollup: Rollup) -> RollupState:
    """Read the state of a rollup."""
    return RollupState(rolled_up.read(OffsetStore.of(run, rollup.definition)), present(run, rollup))


def present(run: RunContext, rollup: Rollup) -> RolledUp | None:
    """Read the present state of a rollup's source; None until it has processed a time bucket.

    Call it before reading rows: a run that replaces time buckets stores a higher write time before
    the first row, and again after the last.
    """
    control, settings, source = run.control, run.settings, rollup.source
    live = live_release.live(control, settings, source)
    if live is None:
        return None
    subject = live_release.subject_of(settings, source, live)
    write_time = management_state.last_write_time(control, settings, subject)
    return RolledUp(live.table, write_time, rollup.definition.fingerprint)


def require_tables(run: RunContext, rollup: Rollup, state: RollupState) -> None:
    """Refuse tables whose rows expire, and tables that no longer exist.

    Raises:
        SchemaMismatch: the table of the source or of a rollup that was made does not exist.
        DefinitionError: the rows of one of them expire.
    """
    definition = rollup.definition
    if state.present is not None:
        source_table = state.present.table
        if _time_to_live(run, definition, source_table, "source") is None:
            raise SchemaMismatch(
                f"the table {source_table} of projection {rollup.source.name} does not exist",
                where=str(rollup.source.file),
                do=f"run `project.py status {rollup.source.name}`",
            )
    is_absent = _time_to_live(run, definition, definition.target, "target") is None
    if is_absent and state.made is not None:
        raise SchemaMismatch(
            f"the table {definition.target} of projection {definition.name} does not exist any"
            " more, though it was made",
            where=str(definition.file),
            do=f"run `project.py clear {definition.name} --apply`, create the table as `project.py"
            " --dry-run --show` prints it, then run `project.py`",
        )


def _time_to_live(run: RunContext, definition: Definition, table: str, key: str) -> int | None:
    keyspace, _, name = table.partition(".")
    time_to_live = default_time_to_live(run.control, keyspace, name)
    if time_to_live:
        raise definition.error(
            f"rows of {table} expire, and no run learns of it",
            "let mode rollup read and write tables without default_time_to_live",
            definition.header_lines[key],
        )
    return time_to_live
