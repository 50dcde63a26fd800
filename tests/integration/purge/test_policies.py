"""Purge by policies in a real Cassandra: explain, approve, and what is refused before a delete."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid1

import pytest

from tests.integration.purge.test_purge import DEFINITION, numbers, projections, tagged
from tests.integration.support import Journal
from tidemark import clock
from tidemark.window import iso

__all__ = ["tagged"]


def policies(journal: Journal, *lines: str) -> dict[str, str]:
    """Write the file of the policies; return the setting that names it."""
    file = projections(journal).parent / "retention.yaml"
    file.write_text("\n".join(["policies:", *lines]) + "\n")
    return {"RETENTION_FILE": str(file)}


def test_only_the_approved_plan_is_applied_and_none_of_a_moved_world(
    tagged: Journal,
) -> None:
    file = policies(
        tagged,
        "- {name: reds, target: tag-views, keep-days: 40, tags: [red]}",
        "- {name: rest, target: tag-views}",
    )
    planned = tagged.run("purge", "--explain", **file)
    assert planned.report["pieces"]["planned"] == 3, planned.stderr
    assert f"keep-days: 40, from {file['RETENTION_FILE']}:2" in planned.stdout
    assert "keep-days: 30, by default" in planned.stdout
    assert planned.report["details"]["tombstones"] == 6
    approval = planned.report["details"]["approval"]
    assert f"approval: {approval}" in planned.stdout

    row = next(row for row in tagged.rows("tag_views") if row["sequence_nr"] == 1)
    tagged.insert("tag_views", [{**row, "tag_name": "late"}])
    refused = tagged.run("purge", "--apply", "--approved", approval, **file)
    assert refused.status == 2
    [line] = refused.error_lines
    assert "the data changed after this plan was approved" in line
    assert numbers(tagged) == {1, 2, 3}

    again = tagged.run("purge", **file).report["details"]["approval"]
    assert again != approval
    others = tagged.run("purge", "--policy", "reds", "--apply", "--approved", again, **file)
    assert (others.status, numbers(tagged)) == (2, {1, 2, 3})
    applied = tagged.run("purge", "--apply", "--approved", again, **file)
    assert applied.report["counts"]["partitions_deleted"] == 7, applied.stderr
    assert numbers(tagged) == set()


def test_bad_input_is_refused_in_one_line_before_anything_is_touched(
    tagged: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    (projections(tagged) / "reds.sql").write_text(
        DEFINITION.lstrip().replace("mode:", "look-back: 100\nmode:")
    )
    unknown = policies(tagged, "- {name: a, target: tag-views, tags: [red, gren]}")
    assert "2:44" in refusal(tagged, "no event has the tag gren", **unknown)
    short = policies(tagged, "- {name: a, target: tag-views, keep-days: 4}")
    line = refusal(tagged, "4 days are less than the 100 time buckets that reds looks", **short)
    assert "retention.yaml:2:" in line
    floor = policies(tagged, "- {name: a, target: tag-views, keep-days: 4}")
    refusal(
        tagged,
        "4 days are less than the 30 of TIDEMARK_RETENTION_DAYS",
        RETENTION_DAYS="30",
        **floor,
    )
    rest = policies(tagged, "- {name: a, target: tag-views}")
    refusal(tagged, "there is no policy b", "--policy", "b", **rest)

    now = datetime.now(UTC)
    ahead = now + timedelta(days=400)
    monkeypatch.setattr(clock, "now", lambda: ahead)
    refusal(tagged, f"the clock says {iso(ahead)}, and Cassandra's ", **rest)
    monkeypatch.setattr(clock, "now", lambda: now)
    assert tagged.run("purge", **rest).status == 0
    behind = now - timedelta(days=2)
    monkeypatch.setattr(clock, "now", lambda: behind)
    refusal(tagged, f"and the audit has rows of {now:%Y-%m-%d}", **rest)


@pytest.mark.long
def test_old_rows_of_own_tables_go_and_what_may_be_needed_stays(tagged: Journal) -> None:
    journal, now = tagged.keyspace, datetime.now(UTC)
    old, young = now - timedelta(days=100), now - timedelta(days=1)

    def put(name: str, **row: object) -> None:
        columns = ", ".join(row)
        tagged.control.execute(
            f"INSERT INTO {tagged.own_keyspace}.{name} ({columns})"
            f" VALUES ({', '.join('?' * len(row))})",
            list(row.values()),
        )

    for source, name, at in (
        ("a", "p", old),
        ("b", "p", old),
        ("b", "q", young),
        ("b", "p2", young),
    ):
        of: dict[str, object] = {"source": source, "application": "x", "persistence_id": name}
        put("quarantine", **of, sequence_nr=1, timestamp=uuid1(), found_at=at)
    for bucket, state, at in ((1, "settled", old), (2, "open", old), (3, "settled", young)):
        key: dict[str, object] = {
            "journal_keyspace": journal,
            "time_bucket": bucket,
            "check_name": "c",
        }
        key |= {"persistence_id": "p", "tag": "", "number": 1}
        key |= {"sequence_nr": 1, "timestamp": uuid1(), "row_time_bucket": 0}
        put("finding", **key, state=state, last_seen=at)
    file = policies(
        tagged,
        "- {name: bad, target: quarantine, keep-days: 90}",
        "- {name: found, target: findings, keep-days: 90}",
    )
    applied = tagged.run("purge", "--apply", **file)
    counts = applied.report["counts"]
    assert (counts["partitions_deleted"], counts["ranges_deleted"]) == (2, 1), applied.stdout
    left = {(row["source"], row["persistence_id"]) for row in tagged.own_rows("quarantine")}
    assert left == {("b", "q"), ("b", "p2")}
    assert {row["time_bucket"] for row in tagged.own_rows("finding")} == {2, 3}
    assert {row["name"] for row in tagged.own_rows("policy_piece")} == {"bad", "found"}


def refusal(journal: Journal, what: str, *options: str, **variables: str) -> str:
    """Run purge, which must refuse with one line and delete nothing; return the line."""
    variables = {"RETENTION_DAYS": "1", **variables}
    refused = journal.run("purge", "--apply", *options, **variables)
    assert refused.status in (1, 2)
    [line] = refused.error_lines
    assert what in line
    assert numbers(journal) == {1, 2, 3}
    return line
