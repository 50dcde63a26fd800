"""Whether the table of a projection is still there, asked in every run and without Spark.

Whether a result fits its table is asked where there is something to process, by `writing.target`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.context import RunContext
from tidemark.errors import Remedy, SchemaMismatch
from tidemark.ledger import applications
from tidemark.ledger.frontier.state import LedgerState
from tidemark.project.definition.model import Definition
from tidemark.text import counted
from tidemark.window import from_millis, iso


def require(
    run: RunContext, definition: Definition, standing: LedgerState, *, force: bool = False
) -> None:
    """Refuse a table that is absent or has another key, although time buckets of it are done.

    Args:
        run: the context of the run.
        definition: the projection; one in mode export has no table.
        standing: its pieces.
        force: whether the run does again what is done; a blue/green version's own table is then
            made by the run.

    Raises:
        SchemaMismatch: the table does not exist.
        DefinitionError: it has another key than the definition states.
    """
    done = standing.done_by(definition.fingerprint)
    if not (definition.table and done):
        return
    if run.control.table_columns(definition.keyspace, definition.table) is not None:
        partition_key, clustering = run.control.primary_key(definition.keyspace, definition.table)
        require_key(definition, [*partition_key, *clustering])
        return
    if definition.is_blue_green and force:
        return
    first, end = done.ranges[0][0], done.ranges[-1][1]
    shown = _command(definition, first, end, "dry-run", "show")
    create = "" if definition.is_blue_green else f"create it as `{shown}` prints it, then "
    raise SchemaMismatch(
        f"the table {definition.target} of projection {definition.name} does not exist any more,"
        f" though {counted(len(done), 'time bucket')} of it are done",
        where=str(definition.file),
        do=f"{create}run `{write_again(definition, first, end)}`",
    )


def require_key(definition: Definition, actual: Sequence[str]) -> None:
    """Require that the stated key is the table's.

    Raises:
        DefinitionError: it is another one.
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
    """Return the run that writes time buckets again; from `first` to `end`, exclusive, epoch ms."""
    return _command(definition, first, end, "force")


def _command(definition: Definition, first: int, end: int, *flags: str) -> Remedy:
    options: dict[str, object] = {
        "projection": definition.name,
        "window-start": iso(from_millis(first)),
        "window-end": iso(from_millis(end)),
    }
    return Remedy(applications.PROJECT, options=options | dict.fromkeys(flags, True))
