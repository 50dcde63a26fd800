"""What the demo did, from the ledger, and its read model beside a direct count over the CSV."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
from rich.console import Console
from rich.table import Table

from embedded.applications import READ_MODEL_KEYSPACE
from embedded.postgres.server import PostgresEndpoint
from examples.flights.source import flights_file
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import SCHEMA_DIR, table
from tidemark.ledger.applications import PROJECT, PURGE, TAG_WRITE, VALIDATE
from tidemark.ledger.piece import PieceRow, State
from tidemark.ledger.pieces import Pieces
from tidemark.project.definition import catalog
from tidemark.settings import Settings
from tidemark.validate.findings.checks import CHECKS
from tidemark.window import Window, to_millis

MEASURES = ["departed", "delayed", "cancelled"]


def show(control: Control, settings: Settings, window: Window) -> bool:
    """Print both; returns whether the read model agrees with the CSV."""
    console = Console(highlight=False)
    console.print(f"\nFlights that left New York, {window}")
    console.print(_figures(control, settings, window))
    model = read_model(control, settings, window)
    counted = count_csv(window)
    agrees = model.equals(counted)
    console.print(_comparison(model, counted))
    verdict = "agrees with" if agrees else "DISAGREES with"
    console.print(f"The read model daily_punctuality {verdict} a direct count over flights.csv.")
    return agrees


def show_topic(control: Control, settings: Settings, window: Window) -> bool:
    """Print what came through Kafka; returns whether its read model agrees with the CSV."""
    console = Console(highlight=False)
    rows = control.execute(
        f"SELECT offset FROM {table(settings.kafka_journal_keyspace, settings.kafka_pointer_table)}"
    )
    records = sum(row["offset"] + 1 for row in rows)
    agrees = read_model(control, settings, window, "topic_departures").equals(count_csv(window))
    verdict = "agrees with" if agrees else "DISAGREES with"
    console.print(
        f"Of {window}, {records:,} records were replicated from Kafka; their read model"
        f" topic_departures {verdict} the CSV."
    )
    return agrees


def create_departures(postgres: PostgresEndpoint) -> None:
    """Make the table of the read model in PostgreSQL, unless it is there."""
    with postgres.session() as session:
        session.execute((SCHEMA_DIR / "departures.sql").read_bytes())


def show_departures(postgres: PostgresEndpoint, settings: Settings, window: Window) -> bool:
    """Print what is in PostgreSQL; returns whether the read model there agrees with the CSV."""
    buckets = window.buckets(settings.bucket_size)
    with postgres.session() as session:
        cursor = session.execute(
            "SELECT carrier, origin, departed, delayed, cancelled FROM public.departures"
            " WHERE time_bucket = ANY(%s)",
            [[*buckets]],
        )
        rows = pd.DataFrame(cursor.fetchall(), columns=["carrier", "origin", *MEASURES])
    agrees = _by_carrier(rows).equals(count_csv(window))
    verdict = "agrees with" if agrees else "DISAGREES with"
    Console(highlight=False).print(
        f"Of {window}, the read model public.departures in PostgreSQL {verdict} the CSV."
    )
    return agrees


def read_model(
    control: Control, settings: Settings, window: Window, name: str = "daily_punctuality"
) -> pd.DataFrame:
    """Sum a read model over the window's time buckets: MEASURES by carrier and origin."""
    parts = control.execute_many(
        f"SELECT carrier, origin, {', '.join(MEASURES)}"
        f" FROM {table(READ_MODEL_KEYSPACE, name)} WHERE time_bucket = ?",
        [(bucket,) for bucket in window.buckets(settings.bucket_size)],
    )
    rows = pd.DataFrame(
        [row for part in parts for row in part], columns=["carrier", "origin", *MEASURES]
    )
    return _by_carrier(rows)


def count_csv(window: Window) -> pd.DataFrame:
    """Count departures, delays and cancellations of the window in the CSV itself."""
    flights = pd.read_csv(flights_file())
    scheduled = pd.to_datetime(flights["time_hour"]) + pd.to_timedelta(flights["minute"], "min")
    is_cancelled = flights["dep_time"].isna()
    happened = scheduled + pd.to_timedelta(flights["dep_delay"].fillna(0), "min")
    in_window = (happened >= window.start) & (happened < window.end)
    counted = pd.DataFrame(
        {
            "carrier": flights["carrier"],
            "origin": flights["origin"],
            "departed": ~is_cancelled,
            "delayed": flights["dep_delay"] > 15,
            "cancelled": is_cancelled,
        }
    )
    return _by_carrier(counted[in_window])


def _by_carrier(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.groupby(["carrier", "origin"])[MEASURES].sum().astype("int64").sort_index()


def _figures(control: Control, settings: Settings, window: Window) -> Table:
    def done(application: str, subject: str) -> list[PieceRow]:
        pieces = Pieces(control, settings.keyspace, application, subject, settings.bucket_size)
        entries = pieces.entries(to_millis(window.start), to_millis(window.end))
        return [entry for entry in entries if entry.state is State.DONE]

    journal = settings.journal_keyspace
    tagged, validated = done(TAG_WRITE, journal), done(VALIDATE, journal)
    purged = done(PURGE, journal)
    figures = Table()
    figures.add_column("step")
    figures.add_column("what")
    figures.add_column("figure", justify="right")
    figures.add_row("tag-write", "events read", _sum(tagged, "events_read"))
    figures.add_row("", "tag rows written", _sum(tagged, "tag_rows_written"))
    figures.add_row("validate", "checks on each time bucket", f"{len(CHECKS):,}")
    figures.add_row("", "time buckets that passed them all", f"{len(validated):,}")
    for definition in catalog.load(settings.projections_dir):
        consumed = done(PROJECT, definition.subject(journal))
        figures.add_row("project", f"{definition.name}: events read", _sum(consumed, "events_read"))
        if not definition.table:
            continue
        rows = control.execute(
            f"SELECT count(*) AS n FROM {table(definition.keyspace, definition.table)}"
        )
        figures.add_row("", f"{definition.name}: read-model rows", f"{rows[0]['n']:,}")
    figures.add_row("purge", "time buckets purged", f"{len(purged):,}")
    figures.add_row("", "tag-view partitions deleted", _sum(purged, "partitions_deleted"))
    return figures


def _sum(entries: Iterable[PieceRow], name: str) -> str:
    return f"{sum(entry.counts.get(name, 0) for entry in entries):,}"


def _comparison(model: pd.DataFrame, counted: pd.DataFrame) -> Table:
    ours, theirs = model.groupby("carrier").sum(), counted.groupby("carrier").sum()
    comparison = Table()
    comparison.add_column("carrier")
    for measure in MEASURES:
        comparison.add_column(f"{measure}\n(read model, CSV)", justify="right")
    for carrier in theirs.sort_values("departed", ascending=False).index[:8]:
        comparison.add_row(
            str(carrier),
            *[
                f"{ours[measure].get(carrier, 0):,}  {theirs[measure][carrier]:,}"
                for measure in MEASURES
            ],
        )
    return comparison
