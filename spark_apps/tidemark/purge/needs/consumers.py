"""The progress of projections that consume persistence ids, and what they may read again.

Plain data except `consumers_of`, which reads the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from tidemark.cassandra.control import Control
from tidemark.context import RunContext
from tidemark.ledger.frontier.state import LedgerState
from tidemark.ledger.piece import PieceRow, State
from tidemark.project.definition import catalog
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.definition.source import Tags
from tidemark.project.planning import history, live_release
from tidemark.project.planning.plan import ledger
from tidemark.settings import Settings


@dataclass(frozen=True)
class ConsumerProgress:
    """The consumed events that a projection may read again.

    Attributes:
        again_from: the first time bucket (epoch ms) of which it may read consumed events again;
            None if it needs only unconsumed events.
        is_anew: whether it may read every persistence id from its first event on.
    """

    again_from: int | None = None
    is_anew: bool = False


@dataclass(frozen=True)
class Consumer:
    """A version of a projection that numbers its events by persistence id, and its progress.

    Attributes:
        name: of the projection, with the version if it is a live release that is being replaced.
        definition: of this version.
        begin: the first time bucket (epoch ms) that it processes; `history.ALL` without one.
        progress: what it may read again.
    """

    name: str
    definition: Definition
    begin: int
    progress: ConsumerProgress


def consumers_of(run: RunContext, reads: Callable[[Definition], bool]) -> list[Consumer]:
    """Return the consumers among the projection files, and the live releases that they replace.

    `reads` chooses among the definitions that do not read tag views.

    Raises:
        InvalidInput: there is no directory of projection files.
        DefinitionError: a projection file cannot be used, so that its needs are unknown; or its
            `from` does not begin a time bucket.
    """
    settings = run.settings
    consumers = []
    for definition in catalog.load(settings.projections_dir):
        if isinstance(definition.source, Tags) or not reads(definition):
            continue
        begin = history.begin_of(definition, settings.bucket_size)
        consumers.append(
            Consumer(
                definition.name,
                definition,
                begin,
                progress(
                    definition,
                    ledger(run, definition).standing(),
                    look_back=settings.project_look_back,
                    inherited=live_release.inherited(run.control, settings, definition),
                ),
            )
        )
        former = replaced_release(run.control, settings, definition)
        if former is not None:
            ledger_state = as_of(ledger(run, former).standing(), former)
            consumers.append(
                Consumer(
                    f"{former.name}@v{former.version}",
                    former,
                    begin,
                    progress(former, ledger_state, look_back=settings.project_look_back),
                )
            )
    return consumers


def replaced_release(
    control: Control, settings: Settings, definition: Definition
) -> Definition | None:
    """Return the live version of a blue/green projection while a newer one is built, or None.

    Its readers see no later event, but a return to its file continues from its offsets.
    """
    if not definition.is_blue_green:
        return None
    live = live_release.live(control, settings, definition)
    if live is None or live.table == definition.target:
        return None
    if live.table == definition.template_target:
        return replace(
            definition, version=live.version, table=definition.template, is_blue_green=False
        )
    return live_release.at_version(definition, live.version)


def as_of(state: LedgerState, definition: Definition) -> LedgerState:
    """Return a ledger as if this definition had done all pieces: the former one is unknown."""
    version = definition.fingerprint
    return replace(
        state,
        spans=[span._replace(version=version) for span in state.spans],
        rows=[replace(row, definition_version=version) for row in state.rows],
    )


def progress(
    definition: Definition,
    state: LedgerState,
    *,
    look_back: int,
    inherited: Collection[int] = (),
) -> ConsumerProgress:
    """Derive from the ledger which events a projection may read again.

    - A piece that is not done by this definition is read completely: because the definition has
      changed, or the piece failed, is held or was planned again.
    - A mode that replaces time buckets needs all events of a bucket that receives a late event; it
      reads late events from `look_back` time buckets (unless the definition has its own) before the
      newest one that is done.
    - A fold reads a persistence id from its first event on until this version has made its state
      (`transformation/fold_start.py`).

    `inherited` are the time buckets (epoch ms) to process because the live version has them.
    """
    version = definition.fingerprint
    done = state.done_by(version)
    other_spans = [span for span in state.spans if span.version != version]
    waiting = [row for row in state.rows if not row.is_done(version)]
    pending = [bucket for bucket in inherited if bucket not in done]
    firsts = [
        *(span.first for span in other_spans),
        *(row.time_bucket for row in waiting),
        *pending,
    ]
    if definition.mode.replaces_buckets:
        look_back_buckets = look_back if definition.look_back is None else definition.look_back
        ends = [*firsts, *([] if done.last is None else [done.last + state.bucket_ms])]
        firsts = [min(ends) - look_back_buckets * state.bucket_ms] if ends else []
    is_anew = definition.mode is Mode.FOLD and bool(
        pending or _has_other_states(waiting, version) or any(span.version for span in other_spans)
    )
    return ConsumerProgress(min(firsts, default=None), is_anew)


def _has_other_states(waiting: Iterable[PieceRow], version: str) -> bool:
    """Return whether persistence ids may have states of other versions, or unsure ones."""
    return any(
        (row.definition_version or version) != version
        or row.state in (State.RUNNING, State.FAILED)
        or (row.state is State.PLANNED and row.attempt > 0)
        for row in waiting
    )
