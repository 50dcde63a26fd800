"""Which snapshots to delete, as a pure transformation.

The cases are those of Pekko's CleanupSpec.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import ID, SNAPSHOTS
from tidemark.purge.needs.shapes import EVENT_NEEDS
from tidemark.spark.shapes import Shape, shaped

KEPT: Shape = {**ID, "first_kept": "bigint", "newest": "bigint", "snapshots": "bigint"}
"""`first_kept`: sequence nr of the oldest snapshot that is kept. `newest`: that of the newest.
`snapshots`: how many are deleted, all before `first_kept`."""


@shaped(snapshots=SNAPSHOTS, needs=EVENT_NEEDS, returns=KEPT)
def kept(snapshots: DataFrame, needs: DataFrame, *, keep: int, keep_after: int | None) -> DataFrame:
    """Return the oldest snapshot that is kept of each persistence id.

    A snapshot is kept if it is among the newest `keep` (at least 1), or was taken after
    `keep_after` (epoch ms, exclusive), or a projection may begin with it, or it lies between two
    that are kept.
    """
    rank = F.row_number().over(Window.partitionBy("persistence_id").orderBy(F.desc("snapshot_nr")))
    is_kept = F.col("rank") <= keep
    if keep_after is not None:
        is_kept = is_kept | (F.col("epoch_ms") > keep_after)
    is_kept = is_kept | F.coalesce(F.col("snapshot_nr") >= F.col("needed_from"), F.lit(False))
    of_id = Window.partitionBy("persistence_id")
    return (
        snapshots.join(needs, on="persistence_id", how="left")
        .withColumn("rank", rank)
        .withColumn("first_kept", F.min(F.when(is_kept, F.col("snapshot_nr"))).over(of_id))
        .groupBy("persistence_id", "first_kept")
        .agg(
            F.max("snapshot_nr").alias("newest"),
            F.sum((F.col("snapshot_nr") < F.col("first_kept")).cast("bigint")).alias("snapshots"),
        )
    )
