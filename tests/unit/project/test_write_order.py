"""The pipeline of a projection writes in the order that `projection_model` shows to be safe."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from unittest.mock import MagicMock

import pytest

from tests.unit.project.projection_model import ORDER
from tidemark.ledger.piece import Piece, Reason
from tidemark.project.acceptance.accept import AcceptedEvents
from tidemark.project.definition.model import Mode
from tidemark.project.offset_store import bucket_origin, consumption, missing_numbers
from tidemark.project.running import pipeline
from tidemark.project.running.pipeline import Pipeline
from tidemark.project.writing import dead_letters
from tidemark.project.writing import write as modes

COMPLETE, WITH_GAP = 1, 2
"""Time buckets; events of the second are held back."""
ALL = ("result", "release", "offsets", "cursors", "missing", "ledger", "ledger")
"""`release`: processed events leave quarantine. The ledger is written once for each state."""
OF_BUCKETS = ("origin", *ALL[:4], "origin", *ALL[4:])
"""A mode that replaces time buckets also notes what a result is made from, and when it is sure."""


class DeathError(Exception):
    """The end of a run in a write."""


def written(patched: pytest.MonkeyPatch, mode: Mode, dies_in: int | None = None) -> list[str]:
    """Return the writes of a batch; the run may die in the write of that place."""
    names: list[str] = []

    def write(name: str) -> Callable[..., object]:
        def note(*arguments: object, **options: object) -> object:
            names.append(name)
            if len(names) - 1 == dies_in:
                raise DeathError
            return MagicMock(by_bucket=None)

        return note

    def write_result(
        request: object, rows: object, announce: Callable[[], None], writer: object
    ) -> object:
        announce()
        return write("result")()

    # What is read and computed does not matter here.
    for name in ("transform", "rule", "kept_once", "ReconcileGuard"):
        patched.setattr(pipeline, name, MagicMock())
    patched.setattr(modes, "MODES", {mode: MagicMock()})
    patched.setattr(modes, "write", write_result)
    patched.setattr(dead_letters, "release_processed", write("release"))
    patched.setattr(consumption, "write_offsets", write("offsets"))
    patched.setattr(bucket_origin, "note", write("origin"))
    patched.setattr(missing_numbers, "replace", write("missing"))
    pieces = [Piece(bucket, Reason.NEW, attempt=2) for bucket in (COMPLETE, WITH_GAP)]
    accepted = AcceptedEvents(
        MagicMock(), [COMPLETE, WITH_GAP], MagicMock(), gaps={WITH_GAP: "gap"}
    )
    acceptance = MagicMock()
    acceptance.accept.return_value = accepted
    acceptance.store.advance_cursors = write("cursors")
    acceptance.store.fence = None
    steps = Pipeline(
        MagicMock(),
        MagicMock(pieces=pieces, finish_some=write("ledger")),
        MagicMock(definition=MagicMock(mode=mode, is_blue_green=False)),
        acceptance,
    )
    with nullcontext() if dies_in is None else pytest.raises(DeathError):
        steps.run_batch(MagicMock(planned=frozenset({COMPLETE, WITH_GAP})), set())
    return names


@pytest.mark.parametrize("mode", [Mode.BUCKET, Mode.UPSERT, Mode.FOLD, Mode.APPEND, Mode.EXPORT])
def test_writes_are_in_the_order_of_the_model(monkeypatch: pytest.MonkeyPatch, mode: Mode) -> None:
    every = OF_BUCKETS if mode.replaces_buckets else ALL
    names = written(monkeypatch, mode)
    assert tuple(dict.fromkeys(name for name in names if name in ORDER)) == ORDER
    assert names == [*every]
    for place in range(len(every)):
        # A run that dies in a write makes no later one.
        assert written(monkeypatch, mode, place) == [*every[: place + 1]]
