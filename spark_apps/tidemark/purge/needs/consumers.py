"""How far the definitions have come that consume persistence ids, and what they may read again.

Plain data but for `consumers_of`, which reads the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from tidemark.cassandra.control import Control
from tidemark.context import RunContext
from tidemark.ledger.frontier.state import LedgerState
from tidemark.ledger.pieces import PieceRow, State
from tidemark.project.definition import catalog
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.definition.source import Tags
from tidemark.project.planning import history, live_release
from tidemark.project.planning.plan import ledger
from tidemark.settings import Settings


@dataclass(frozen=True)
class ConsumerProgress:
    """What a projection may read again of what it has consumed.

    Attributes:
        again_from: the first time bucket (epoch ms) of which it may read consumed events again;
            None if it needs only what it has not consumed.
        is_anew: whether it may read every persistence id from its first event on.
    """

    again_from: int | None = None
    is_anew: bool = False


@dataclass(frozen=True)
class Consumer:
    """A version of a projection that numbers its events by persistence id, and its progress.

    Attributes:
        name: of the projection, with the version of a release that is live beside a newer one.
        definition: of this version.
        begin: the first time bucket (epoch ms) that it processes; `history.ALL` without one.
        progress: what it may read again.
    """

    name: str
    definition: Definition
    begin: int
    progress: ConsumerProgress


def consumers_of(run: RunContext, reads: Callable[[Definition], bool]) -> list[Consumer]:
    """Return the consumers among the projection files, and live releases that one of them replaces.

    Args:
        run: the context of the run.
        reads: whether a definition, which does not read tag views, is wanted.

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
            standing = as_of(ledger(run, former).standing(), former)
            consumers.append(
                Consumer(
                    f"{former.name}@v{former.version}",
                    former,
                    begin,
                    progress(former, standing, look_back=settings.project_look_back),
                )
            )
    return consumers


def replaced_release(
    control: Control, settings: Settings, definition: Definition
) -> Definition | None:
    """Return the live version of a blue/green projection while a newer one is built, or None.

    Its readers see no later event, but whoever goes back to its file goes on from its offsets.
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


def as_of(standing: LedgerState, definition: Definition) -> LedgerState:
    """Return pieces as if this definition had made them: that of a former version is unknown."""
    version = definition.fingerprint
    return replace(
        standing,
        spans=[span._replace(version=version) for span in standing.spans],
        rows=[replace(row, definition_version=version) for row in standing.rows],
    )


def progress(
    definition: Definition,
    standing: LedgerState,
    *,
    look_back: int,
    inherited: Collection[int] = (),
) -> ConsumerProgress:
    """Derive what a projection may read again from how its pieces stand in the ledger.

    - A piece that is not done by this definition is read as a whole: that of a changed definition,
      one that failed, is held or was planned again.
    - A mode that replaces time buckets needs all events of one that takes in a late event; such
      events are looked for `look_back` time buckets before the newest one that is done.
    - A fold reads a persistence id from its first event on until this version has made its state
      (`transformation/fold_start.py`).

    Args:
        definition: the projection.
        standing: all its pieces; as many spans for ten years as for a day.
        look_back: time buckets, unless the definition says how many.
        inherited: time buckets (epoch ms) that the version has to process because the live one has.
    """
    version = definition.fingerprint
    done = standing.done_by(version)
    of_others = [span for span in standing.spans if span.version != version]
    waiting = [row for row in standing.rows if not row.is_done(version)]
    left = [bucket for bucket in inherited if bucket not in done]
    firsts = [*(span.first for span in of_others), *(row.time_bucket for row in waiting), *left]
    if definition.mode.replaces_buckets:
        own = look_back if definition.look_back is None else definition.look_back
        ends = [*firsts, *([] if done.last is None else [done.last + standing.bucket_ms])]
        firsts = [min(ends) - own * standing.bucket_ms] if ends else []
    is_anew = definition.mode is Mode.FOLD and bool(
        left or _has_other_states(waiting, version) or any(span.version for span in of_others)
    )
    return ConsumerProgress(min(firsts, default=None), is_anew)


def _has_other_states(waiting: Iterable[PieceRow], version: str) -> bool:
    """Return whether persistence ids may have states that are not of this version, or unsure."""
    return any(
        (entry.definition_version or version) != version
        or entry.state in (State.RUNNING, State.FAILED)
        or (entry.state is State.PLANNED and entry.attempt > 0)
        for entry in waiting
    )
