"""Fetch the jars of Spark: the Cassandra connector, Spark's Kafka source, and Iceberg."""

from __future__ import annotations

import typer

from tidemark.application import cli
from tidemark.installation import jars_directory
from tidemark.jars.fetch import OF_SPARK, fetch


def main() -> None:
    """Fetch the jars that Spark needs, 67 MB, each with the SHA-256 that this version has locked.

    Jars that exist are checked and not fetched again. TIDEMARK_SPARK_JARS,
    TIDEMARK_SPARK_KAFKA_JARS and TIDEMARK_SPARK_ICEBERG_JARS name jars of your own instead.
    """
    for group in OF_SPARK:
        directory = jars_directory() / group
        jars = fetch(group, directory, lambda text: typer.echo(text, err=True))
        typer.echo(f"{group}: {len(jars)} jars in {directory}")


def start() -> None:
    """Run the command line of this process."""
    cli.start_tool("jars", main, examples=[""])
