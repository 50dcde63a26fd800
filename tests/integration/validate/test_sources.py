"""Users' checks and suites on each source: what passes, what fails, and absent sources."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.project import fold_books
from tests.integration.project.projections import (
    HOUR_MS,
    LATEST,
    LATEST_TABLE,
    START_MS,
    TOTALS,
    TOTALS_TABLE,
    Event,
    Projections,
    event,
)
from tests.integration.project.test_modes import LOG, LOG_TABLE
from tests.integration.project.test_rollups import ROLLUP, ROLLUP_TABLE
from tests.integration.project.test_sources import LOG as OF_TOPIC
from tests.integration.project.test_sources import Orders
from tests.integration.replicate.replicator import Replicator
from tests.integration.support import Result
from tests.integration.tag_write.test_tag_write import window
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET
from tidemark.validate.user_checks.suite import SUITES

SOURCES = {
    "journal": (
        "journal",
        "SELECT time_bucket, persistence_id, sequence_nr AS number, serializer_id, payload_bytes"
        " FROM journal",
        "serializer_id = 20 AND payload_bytes IS NOT NULL",
        "payload_bytes > 5",
    ),
    "events": (
        "{events: totals}",
        "SELECT time_bucket, persistence_id, sequence_nr AS number, amount FROM events",
        "amount > 0",
        "amount < 30",
    ),
    "buckets": (
        "{read-model: totals}",
        "SELECT time_bucket AS number, kind, total FROM read_model",
        "total > 0",
        "total < 30",
    ),
    "rows": (
        "{read-model: latest}",
        "SELECT persistence_id, sequence_nr AS number, amount FROM read_model",
        "amount > 0",
        "{warn: amount < 30}",
    ),
    "heads": (
        "metajournal",
        "SELECT topic AS tag, persistence_id, seq_nr AS number, delete_to FROM metajournal",
        "number > 0",
        "delete_to = 0",
    ),
    "letters": (
        "quarantine",
        "SELECT persistence_id, sequence_nr AS number, application, cause FROM quarantine",
        "application = 'project/totals' AND cause IS NOT NULL",
        "application = 'tag-write'",
    ),
}
FAILING = {
    ("journal_fails", "b", 2, START_MS + HOUR_MS, "journal: payload_bytes > 5: payload_bytes=1"),
    ("events_fails", "b", 1, START_MS + HOUR_MS, "events totals: amount < 30: amount=40"),
    (
        *("buckets_fails", "", START_MS + HOUR_MS, NO_TIME_BUCKET),
        "read-model totals: total < 30: total=40",
    ),
    ("rows_fails", "b", 1, NO_TIME_BUCKET, "read-model latest: amount < 30: amount=40"),
    ("heads_fails", "h", 7, NO_TIME_BUCKET, "metajournal: delete_to = 0: delete_to=2"),
    (
        *("letters_fails", "b", 2, NO_TIME_BUCKET),
        "quarantine: application = 'tag-write': application=project/totals",
    ),
}


def check(directory: Path, name: str, header: str, select: str) -> None:
    (directory / f"{name}.sql").write_text(f"/*---\nname: {name}\n{header}\n---*/\n{select}\n")


def validated(projections: Projections, checks: Path, **variables: str) -> Result:
    return projections.journal.run(
        "validate",
        *window(0, 2),
        PROJECTIONS_DIR=str(projections.directory),
        CHECKS_DIR=str(checks),
        DATA_DOCS_DIR=str(checks / "docs"),
        **variables,
    )


def of_users(projections: Projections) -> set[tuple[str, str, int, int, str]]:
    names = ("check_name", "persistence_id", "number", "time_bucket", "detail")
    rows = projections.journal.own_rows("finding")
    return {tuple(row[name] for name in names) for row in rows if row["layer"] == "user"}


def test_checks_and_suites_have_every_source(projections: Projections, tmp_path: Path) -> None:
    journal = projections.journal
    totals, latest = (sql.replace("event:", "on-error: skip\nevent:") for sql in (TOTALS, LATEST))
    projections.define(totals.replace("{tags: [red, blue]}", "messages"), TOTALS_TABLE)
    projections.define(latest, LATEST_TABLE, "latest.sql")
    projections.define(latest.replace("latest", "never"), None, "never.sql")
    projections.insert_messages(
        event("a", 1, 0.1, kind="in", amount=10),
        event("b", 1, 1.1, kind="in", amount=40),
        Event("b", 2, 1.2, payload=b"{"),
    )
    projections.validated(0, 1)
    ran = projections.run(0, 2, "--projection", "totals", "--projection", "latest")
    assert ran.status == 0, ran.stderr
    journal.control.execute(
        f"DELETE FROM {journal.own_keyspace}.quarantine WHERE source = ? AND application = ?",
        (f"{journal.keyspace}.messages", "project/latest"),
    )
    Replicator(journal).head("h", delete_to=2)
    checks = tmp_path / "checks"
    (checks / SUITES).mkdir(parents=True)
    for name, (source, select, passes, fails) in SOURCES.items():
        check(checks, f"{name}_passes", f"source: {source}\ncheck: {passes}", select)
        check(checks, f"{name}_fails", f"source: {source}\ncheck: {fails}", select)
    between = "expect_column_values_to_be_between"
    kwargs = {"column": "amount", "max_value": 30}
    suite = {"name": "low", "expectations": [{"type": between, "kwargs": kwargs}]}
    (checks / SUITES / "low.json").write_text(json.dumps(suite))
    for name, of in (("suite_low", "events"), ("model_low", "rows")):
        check(checks, name, f"source: {SOURCES[of][0]}\nsuite: low", SOURCES[of][1])
    for name in ("nobody", "never"):
        check(
            checks,
            name,
            f"source: {{read-model: {name}}}\ncheck: a > 1",
            "SELECT a FROM read_model",
        )

    failed = validated(projections, checks, KAFKA_JOURNAL_KEYSPACE=journal.keyspace)

    assert failed.status == 3, failed.stderr
    found = of_users(projections)
    absent = {row[0]: row[-1] for row in found if row[0] in ("nobody", "never")}
    of_suites = {
        ("suite_low", "b", 1, START_MS + HOUR_MS, f"events totals: {between}(column=amount, max_value=30): amount=40"),  # noqa: E501
        ("model_low", "b", 1, NO_TIME_BUCKET, f"read-model latest: {between}(column=amount, max_value=30): amount=40"),  # noqa: E501
    }  # fmt: skip
    assert {row for row in found if row[0] not in absent} == FAILING | of_suites
    assert "no projection is named nobody" in absent["nobody"]
    assert "there are: latest, never, totals" in absent["nobody"]
    assert "projection never has no read model: no run has processed it" in absent["never"]
    assert "warning: rows_fails: b: read-model latest: amount < 30: amount=40" in failed.stdout
    page = (checks / "docs" / failed.report["details"]["data_docs"]).read_text()
    assert "quarantine: application" in page

    # A source that is absent later is its check's finding; those of a removed check are deleted.
    for file in checks.glob("*.sql"):
        if file.stem not in ("rows_fails", "events_passes"):
            file.unlink()
    check(checks, "heads", "source: metajournal\ncheck: {warn: a > 1}", "SELECT a FROM metajournal")
    journal.control.execute_ddl(f"DROP TABLE {journal.keyspace}.latest")
    warned = validated(projections, checks, KAFKA_JOURNAL_KEYSPACE="absent")

    assert warned.status == 0, warned.stderr
    later = {row[0]: row[-1] for row in of_users(projections)}
    assert later.keys() == {"rows_fails", "heads"}
    dropped = f"read-model latest: the table {journal.keyspace}.latest of projection latest does"
    assert later["rows_fails"].startswith(dropped)
    assert later["heads"].startswith("metajournal: ")
    assert "TIDEMARK_KAFKA_JOURNAL_KEYSPACE" in later["heads"]


OF_PROJECTIONS = {
    "tags": ("{events: totals}", "SELECT time_bucket, persistence_id, amount FROM events"),
    "fold": ("{events: books}", "SELECT time_bucket, persistence_id, amount FROM events"),
    "topic": ("{events: orders}", "SELECT time_bucket, persistence_id, amount FROM events"),
    "books": ("{read-model: books}", "SELECT persistence_id, balance AS amount FROM read_model"),
    "log": ("{read-model: log}", "SELECT persistence_id, amount FROM read_model"),
    "kinds": ("{read-model: kinds}", "SELECT kind AS tag, total AS amount FROM read_model"),
}


def test_checks_have_the_events_and_read_models_of_every_kind_of_projection(
    projections: Projections, tmp_path: Path
) -> None:
    journal = projections.journal
    projections.define(TOTALS, TOTALS_TABLE, "totals.sql")
    projections.define(ROLLUP, ROLLUP_TABLE, "kinds.sql")
    projections.define(LOG, LOG_TABLE, "log.sql")
    projections.define(OF_TOPIC.replace("name: log", "name: orders"), None, "orders.sql")
    fold_books.define(projections, table=fold_books.TABLE)
    events = (
        event("a", 1, 0.1, "red", kind="in", amount=10),
        event("b", 1, 1.1, "blue", kind="in", amount=40),
    )
    projections.insert(*events)
    projections.insert_progress(*events)
    projections.list_persistence_ids()
    orders = Orders(journal)
    orders.head("o", 2)
    for number, hours, amount in ((1, 0.2, 10), (2, 1.2, 40)):
        payload = json.dumps({"kind": "in", "amount": amount})
        orders.append("o", number, hours, payload_type="json", payload_txt=payload)
    projections.validated(0, 1)
    names = ("totals", "books", "log")
    ran = projections.run(0, 2, *(text for name in names for text in ("--projection", name)))
    assert ran.status == 0, ran.stderr
    checks = tmp_path / "checks"
    checks.mkdir()
    for name, (source, select) in OF_PROJECTIONS.items():
        # A check that warns reports nothing of time buckets that have passed.
        low = "amount < 30" if "events" in source else "{warn: amount < 30}"
        check(checks, name, f"source: {source}\ncheck: {low}", select)
        check(checks, f"{name}_passes", f"source: {source}\ncheck: amount > 5", select)

    found = validated(projections, checks, KAFKA_JOURNAL_KEYSPACE=journal.keyspace)

    assert found.status == 3, found.stderr
    reported = {
        (row["check_name"], row["persistence_id"] or row["tag"], row["time_bucket"])
        for row in journal.own_rows("finding")
        if row["layer"] == "user"
    }
    assert reported == {
        ("tags", "b", START_MS + HOUR_MS),
        ("fold", "b", START_MS + HOUR_MS),
        ("topic", "o", START_MS + HOUR_MS),
        ("books", "b", NO_TIME_BUCKET),
        ("log", "b", NO_TIME_BUCKET),
        ("kinds", "in", NO_TIME_BUCKET),
    }
