"""Checks in every run, without Spark, that the table of a projection still exists.

`writing.target` checks that a result fits its table, if there are pieces to process.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.context import RunContext
from tidemark.errors import Remedy, SchemaMismatch
from tidemark.ledger import applications
from tidemark.ledger.frontier.state import LedgerState
from tidemark.project.definition.model import Definition
from tidemark.project.planning import target_table
from tidemark.text import counted
from tidemark.window import from_millis, iso


def require(
    run: RunContext, definition: Definition, state: LedgerState, *, force: bool = False
) -> None:
    """Refuse a table that is absent or has another key, although time buckets of it are done.

    With `force`, the run itself creates the table of a blue/green version.

    Raises:
        SchemaMismatch: the table does not exist.
        DefinitionError: its key differs from that of the definition.
    """
    done = state.done_by(definition.fingerprint)
    if not (definition.table and done):
        return
    if target_table.is_present(run, definition):
        partition_key, clustering = target_table.key_of(run, definition)
        require_key(definition, [*partition_key, *clustering])
        return
    if definition.is_blue_green and force:
        return
    first, end = done.ranges[0][0], done.ranges[-1][1]
    dry_run = _command(definition, first, end, "dry-run", "show")
    create = "" if definition.is_blue_green else f"create it as `{dry_run}` prints it, then "
    raise SchemaMismatch(
        f"the table {definition.target} of projection {definition.name} does not exist any more,"
        f" though {counted(len(done), 'time bucket')} of it are done",
        where=str(definition.file),
        do=f"{create}run `{write_again(definition, first, end)}`",
    )


def require_key(definition: Definition, actual: Sequence[str]) -> None:
    """Require that the key in the definition is that of the table.

    Raises:
        DefinitionError: the keys differ.
    """
    stated = definition.key
    if stated is not None and list(stated.columns) != actual:
        raise definition.error(
            f"the key of {definition.name} is ({', '.join(stated.columns)}), the primary key of"
            f" {definition.target} is ({', '.join(actual)})",
            f"write `{', '.join(actual)}`, or change the table",
            *stated.difference(actual),
        )


def write_again(definition: Definition, first: int, end: int) -> Remedy:
    """Return the command that processes the time buckets from `first` to before `end`, epoch ms."""
    return _command(definition, first, end, "force")


def _command(definition: Definition, first: int, end: int, *flags: str) -> Remedy:
    options: dict[str, object] = {
        "projection": definition.name,
        "window-start": iso(from_millis(first)),
        "window-end": iso(from_millis(end)),
    }
    return Remedy(applications.PROJECT, options=options | dict.fromkeys(flags, True))
