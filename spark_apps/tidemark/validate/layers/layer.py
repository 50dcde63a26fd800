"""Layers that validate checks besides messages and the tag views.

Their findings have no time bucket. Each check of a layer replaces all findings of the layer. If a
finding blocks, no time bucket of the run passes, and each later run checks the layer again until
nothing blocks there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from tidemark.context import RunContext
from tidemark.validate import store
from tidemark.validate.findings import finding
from tidemark.validate.findings.check import Check, Layer
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET
from tidemark.validate.reading.inspection import Inspection, Keep
from tidemark.validate.shapes import FINDINGS


@dataclass(frozen=True)
class FurtherLayer:
    """A layer and its checks.

    Attributes:
        layer: its name.
        checks: its checks.
        find: returns the findings of all its checks, of shape FINDINGS, in NO_TIME_BUCKET.
        is_always: whether each run checks the layer, since that is cheap; else only on request.
    """

    layer: Layer
    checks: Sequence[Check]
    find: Callable[[RunContext, Keep], DataFrame]
    is_always: bool = False


@dataclass(frozen=True)
class Layers:
    """All further layers, and the names of the requested ones."""

    known: Sequence[FurtherLayer] = ()
    requested: Collection[str] = ()

    @property
    def checks(self) -> list[Check]:
        """The checks of all layers."""
        return [check for layer in self.known for check in layer.checks]

    def chosen(self, run: RunContext) -> list[FurtherLayer]:
        """Return the layers to check: requested, checked by each run, or with blocking findings."""
        blocking = {
            row["check_name"]
            for row in store.open_findings_in(run.control, run.settings, NO_TIME_BUCKET)
        }
        return [
            layer
            for layer in self.known
            if layer.is_always
            or layer.layer in self.requested
            or not blocking.isdisjoint(check.name for check in layer.checks)
        ]


NO_LAYERS = Layers()


def with_layers(
    run: RunContext, inspection: Inspection, layers: Sequence[FurtherLayer], keep: Keep
) -> Inspection:
    """Check the layers, and add their findings to an inspection."""
    if not layers:
        return inspection
    checks = [check for layer in layers for check in layer.checks]
    parts = [layer.find(run, keep) for layer in layers]
    user_checks = [check for check in inspection.checks if check.layer is Layer.USER]
    own_checks = [check for check in inspection.checks if check.layer is not Layer.USER]
    extended = replace(
        inspection,
        checks=(*own_checks, *checks, *user_checks),
        layers=tuple(layer.layer for layer in layers),
    )
    # A layer's rows may have columns with names of EVIDENCE and another meaning.
    parts = [finding.with_evidence(part.select(*FINDINGS)) for part in parts if not part.isEmpty()]
    if not parts:
        return extended
    findings = keep(finding.of_buckets(parts, [NO_TIME_BUCKET]))
    return extended.plus(run, findings, [NO_TIME_BUCKET])


def replace_findings(
    run: RunContext,
    findings: DataFrame,
    checks: Sequence[Check],
    replaced: Collection[str],
    write_time: int,
    *,
    is_any: bool,
) -> None:
    """Replace the findings of some checks in NO_TIME_BUCKET by new ones; add those of other checks.

    Two runs may do so at once: the later write time wins, row by row. `findings` (WEIGHED) has all
    findings of the checks `replaced`; `is_any`: it has findings in NO_TIME_BUCKET. `write_time`
    (microseconds) is increased to be after that of the newest finding.
    """
    if not replaced and not is_any:
        return
    newest = store.newest_write(run.control, run.settings, NO_TIME_BUCKET)
    write_time = max(write_time, newest + 1)
    if is_any:
        without_bucket = finding.within(findings, [NO_TIME_BUCKET])
        store.write_findings(without_bucket, checks, run.settings, run.run_id, write_time)
    older = [{"time_bucket": NO_TIME_BUCKET, "check_name": name} for name in replaced]
    store.delete_older(run.control, run.settings, older, write_time)
