"""validate looks at projections: offsets against their sources, and what they wait for."""

from __future__ import annotations

from tests.integration.pekko_journals import delete_message, delete_messages
from tests.integration.project.projections import (
    LATEST,
    LATEST_TABLE,
    START_MS,
    TOTALS,
    TOTALS_TABLE,
    Projections,
    event,
)
from tests.integration.tag_write.test_tag_write import window
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET

HOUR_MS = 3_600_000


def test_offsets_and_waits_are_named_by_projection(projections: Projections) -> None:
    journal = projections.journal
    projections.define(LATEST, LATEST_TABLE)
    projections.insert_messages(
        *(event(pid, n, 0.1 * n, kind="in", amount=1) for pid in "abcd" for n in (1, 2)),
        # Of b, 3 is missing.
        event("b", 4, 1.5, kind="in", amount=1),
    )
    projections.validated(0, 1)
    assert projections.run(0, 2).status == 0
    # Of c, what was consumed is deleted; d is removed for good.
    delete_messages(journal, "c", 2)
    for row in journal.rows("messages"):
        if row["persistence_id"] == "d" or (row["persistence_id"], row["sequence_nr"]) == ("a", 2):
            delete_message(journal, row)

    # One broken file hides no other projection.
    (projections.directory / "broken.sql").write_text("-- name: broken\nSELECT 1")

    # No time bucket is due: the layer is looked at alone.
    result = journal.run(
        "validate",
        *window(0, 2),
        *("--layer", "projections", "--skip-passed"),
        PROJECTIONS_DIR=str(projections.directory),
    )

    assert result.status == 3, result.stderr
    names = ("check_name", "severity", "persistence_id", "tag", "number", "expected")
    rows = journal.own_rows("finding")
    assert {tuple(row[name] for name in names) for row in rows} == {
        ("projection_offset_ahead", "blocks", "a", "latest", 2, 1),
        ("projection_unusable", "warns", "", "broken", 0, None),
        ("projection_piece_not_done", "warns", "", "latest", START_MS + HOUR_MS, None),
        ("projection_numbers_missing", "warns", "b", "latest", 3, 3),
    }
    assert {row["time_bucket"] for row in rows} == {NO_TIME_BUCKET}
    assert {row["layer"] for row in rows} == {"projections"}
    assert "looked at storage, and at projections" in result.stdout
    assert set(result.report["pieces"].values()) == {0}
    [line] = result.error_lines
    assert (
        "1 finding (1 projection_offset_ahead); first: projection_offset_ahead: a projection"
        in line
    )


def test_a_time_bucket_with_another_number_of_rows_than_were_written_is_told(
    projections: Projections,
) -> None:
    journal = projections.journal
    projections.define(TOTALS, TOTALS_TABLE)
    projections.insert(
        *(event("a", 2 * hour + n, hour + 0.1 * n, "red", kind=kind, amount=1)
          for hour in range(3) for n, kind in ((1, "in"), (2, "out")))
    )  # fmt: skip
    projections.validated(0, 1, 2)
    assert projections.run(0, 3).status == 0
    [lost, added] = (START_MS + hour * HOUR_MS for hour in (0, 2))
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.totals WHERE time_bucket = ? AND kind = ?", (lost, "in")
    )
    journal.insert("totals", [{"time_bucket": added, "kind": "other", "n": 1, "total": 1}])

    def found() -> set[tuple[str, str, int]]:
        result = journal.run(
            "validate",
            *window(0, 3),
            *("--layer", "projections", "--skip-passed"),
            PROJECTIONS_DIR=str(projections.directory),
        )
        assert result.status == 0, result.stderr
        rows = journal.own_rows("finding")
        return {(row["check_name"], row["tag"], row["number"]) for row in rows}

    assert found() == {("projection_rows_differ", "totals", bucket) for bucket in (lost, added)}
    assert projections.run(0, 3, "--force").status == 0
    assert found() == set()
