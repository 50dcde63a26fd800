"""Where the embedded servers keep their files."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""

STATE = Path(os.environ.get("TIDEMARK_STATE") or ROOT / ".tidemark").resolve()
"""Data, logs and secrets of the servers started from here; `TIDEMARK_STATE` chooses another."""

JARS = ROOT / ".tidemark" / "jars"
"""Fetched jars, one folder per group, shared by all state directories."""

BROWSER = ROOT / ".tidemark" / "browser"
"""The fetched browser of the tests, shared like the jars."""

CONF = Path(__file__).resolve().parent / "conf"
"""Configuration templates."""

CASSANDRA_HOME = STATE / "cassandra"
KAFKA_HOME = STATE / "kafka"
POSTGRES_HOME = STATE / "postgres"
AIRFLOW_HOME = STATE / "airflow"
