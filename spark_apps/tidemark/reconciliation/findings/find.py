"""All differences of a scope between messages and tag views, read and compared."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.continuity import store
from tidemark.continuity.shapes import SETTLEMENTS
from tidemark.reconciliation.findings import continuity, kinds
from tidemark.reconciliation.findings import rows as compare
from tidemark.reconciliation.findings.bounds import Bounds
from tidemark.reconciliation.findings.read import at_once, once, read_keys
from tidemark.reconciliation.findings.scope import Scope
from tidemark.spark.shapes import shaped


@dataclass(frozen=True)
class Comparison:
    """What a comparison found.

    Attributes:
        findings: `kinds.COLUMNS`, in memory.
        by_kind: how many of each kind, in the order of `kinds.MEANINGS`, without zeros.
        read: messages_checked, tag_rows_checked, rows_of_deleted_events, rows_of_lost_events;
            exempt_rows: rows that are missing and need not be there; settled_findings: what would
            be a finding, had nobody settled it.
    """

    findings: DataFrame
    by_kind: dict[str, int]
    read: dict[str, int]


def find(run: RunContext, scope: Scope) -> Comparison:
    """Compare; nothing is written.

    Raises:
        InvalidInput: the directory of the tag rules does not exist.
        DefinitionError: a tag rule cannot be used.
    """
    bounds = Bounds.of(run, scope.window)
    run.say("reading the keys of tag views and messages")
    keys, read = read_keys(run, scope)
    run.say("comparing")
    kept = compare.KeptRows.of(keys, once)
    of_ids = scope.tags is None
    own, _ = at_once(compare.all_findings(keys, kept, bounds, of_ids=of_ids, keep=once))
    absent, _ = at_once(continuity.absent_events(keys, bounds))
    further = continuity.further_findings(keys, own, absent, bounds, of_ids=of_ids)
    everything, total = at_once(own.unionByName(further))
    settlements = store.settlements(run.spark, run.control, run.settings)
    findings, still_open = at_once(without_settled(everything, settlements))
    counted = {row["kind"]: row["count"] for row in findings.groupBy("kind").count().collect()}
    by_kind = {kind: counted[kind] for kind in kinds.MEANINGS if kind in counted}
    exempt = continuity.count_exempt(absent, keys.deleted, bounds)
    read |= {
        "rows_of_deleted_events": kept.of_deleted_events.count(),
        "rows_of_lost_events": kept.of_lost_events.count(),
        "exempt_rows": exempt,
        "settled_findings": total - still_open,
    }
    return Comparison(findings, by_kind, read)


@shaped(findings=kinds.COLUMNS, settlements=SETTLEMENTS, returns=kinds.COLUMNS)
def without_settled(findings: DataFrame, settlements: DataFrame) -> DataFrame:
    """Drop the findings of validate's checks that operators have settled as they stand."""
    number = F.coalesce("f.number", "f.sequence_nr")
    expected = F.coalesce("f.expected_number", "f.expected_sequence_nr")
    is_same = [
        F.col("f.kind") == F.col("s.check_name"),
        F.col("f.persistence_id") == F.col("s.persistence_id"),
        F.col("f.tag") == F.col("s.tag"),
        number == F.col("s.number"),
        expected.eqNullSafe(F.col("s.expected")),
    ]
    settled = F.broadcast(settlements).alias("s")
    return findings.alias("f").join(settled, on=is_same, how="left_anti").select(*kinds.COLUMNS)
