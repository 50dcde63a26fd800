"""Which persistence ids a restore leaves as they are, and how it sets metadata."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidemark.purge.undo import rules
from tidemark.spark.local_rows import local_rows

Numbers = tuple[int, ...]
CASES: dict[str, tuple[int, Numbers, int, Numbers, int | str | None]] = {
    # name: (deleted before, saved events, deleted now, held events, metadata to write)
    "deleted, nothing since": (0, (1, 2), 2, (3,), 0),
    "deleted twice, the last of it": (2, (3, 4), 4, (5,), 2),
    "deleted twice, the first of it": (0, (1, 2), 4, (5,), "moved"),
    "restored already": (0, (1, 2), 0, (1, 2, 3), None),
    "restored in part": (0, (1, 2), 2, (1, 3), 0),
    "left over from an earlier delete": (5, (1, 2, 3), 5, (6,), None),
    "its actor has deleted further": (0, (1, 2), 7, (8,), "moved"),
    "a new life": (0, (1, 2, 3), 0, (-1, -2), "moved"),
    "a new life beyond the saved events": (0, (1, 2), 0, (-1, -2, -3), "moved"),
    "forgotten": (5, (6, 7), 0, (), 5),
    "only snapshots, its actor has deleted further": (2, (), 7, (8,), None),
    "only snapshots, events left over": (2, (), 2, (1, 3), None),
    "only snapshots, nothing since": (0, (), 0, (1, 2), None),
    "only metadata was forgotten": (5, (), 0, (), 5),
    "only metadata was forgotten, a new life": (5, (), 0, (-1,), "moved"),
}


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> tuple[set[str], dict[str, int]]:
    """Return the persistence ids that have moved, and the metadata of the others."""

    def events(*, is_held: bool) -> DataFrame:
        # The event of a new life is another one of its sequence nr.
        rows = [
            (name, abs(number), "anew" if number < 0 else "first")
            for name, (_, saved, _, held, _) in CASES.items()
            for number in (held if is_held else saved)
        ]
        return local_rows(
            spark, rows, "persistence_id string, sequence_nr bigint, timestamp string"
        )

    def deleted(place: int) -> DataFrame:
        rows = [(name, case[place]) for name, case in CASES.items()]
        return local_rows(spark, rows, "persistence_id string, deleted_to bigint")

    saved, held = events(is_held=False), events(is_held=True)
    standing = rules.compared(deleted(0), saved, deleted(2).where("deleted_to > 0"))
    held = held.join(standing.where(rules.is_changed()), on="persistence_id", how="left_semi")
    moved = rules.not_fitting(standing, saved, held)
    metadata = rules.metadata(standing.join(moved, on="persistence_id", how="left_anti"))
    return (
        {row.persistence_id for row in moved.collect()},
        {row.persistence_id: row.deleted_to for row in metadata.collect()},
    )


@pytest.mark.parametrize("name", CASES)
def test_what_is_restored_of_a_persistence_id(
    found: tuple[set[str], dict[str, int]], name: str
) -> None:
    moved, metadata = found
    assert ("moved" if name in moved else metadata.get(name)) == CASES[name][4]
