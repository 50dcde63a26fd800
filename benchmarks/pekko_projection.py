"""Pekko's own projections (`pekko-projection-cassandra`) of some tags, measured as a process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.journals import HISTORY, Bench, settings_of
from benchmarks.measure import Cost, measure
from embedded.machine import jars
from embedded.machine.java import java_home
from embedded.paths import STATE
from tests.interop import build
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import create_keyspace
from tidemark.window import from_millis

KINDS = ("atLeastOnce", "grouped")
"""One row after the other, and groups of 20 events whose rows are written at once: its defaults."""
_SOURCE = Path(__file__).parent / "projecting" / "Projecting.scala"
_MAIN = "tidemark.benchmarks.Projecting"
_SIZES = """\
CREATE TABLE {keyspace}.sizes (time_bucket bigint, persistence_id text, events bigint, bytes bigint,
    PRIMARY KEY ((time_bucket), persistence_id))"""
_SUMS = "SELECT sum(events) AS events FROM {keyspace}.sizes"


def prepare(bench: Bench) -> None:
    """Compile the program, and recreate the keyspace of its result and its offsets."""
    _command()
    settings = settings_of(bench.environment())
    own = f"{bench.keyspace}_pekko"
    with Control(settings) as control:
        control.execute_ddl(f"DROP KEYSPACE IF EXISTS {own}")
        create_keyspace(control, own, settings.replication)
        control.execute_ddl(_SIZES.format(keyspace=own))


def project(bench: Bench, kind: str, tags: Sequence[str], total: int) -> Cost:
    """Read all `total` events of the tags and write their sizes, one of `KINDS` for each tag.

    Raises:
        RuntimeError: The program failed, or the rows do not add up to all events.
    """
    prepare(bench)
    first = f"{from_millis(HISTORY[0]):%Y%m%dT%H:%M}"
    command = [*_command(), bench.keyspace, first, ",".join(tags), kind, str(total)]
    cost = measure(command, bench.environment(), bench.server)
    with Control(settings_of(bench.environment())) as control:
        [sums] = control.execute(_SUMS.format(keyspace=f"{bench.keyspace}_pekko"))
    if (written := sums["events"]) != total:
        raise RuntimeError(f"Pekko's projection wrote {written} instead of {total} events")
    return cost


def _command() -> list[str]:
    libraries = jars.fetch("projection")
    classes = build.classes([_SOURCE], STATE / "bench" / "projecting", libraries)
    class_path = os.pathsep.join(map(str, [classes, *libraries]))
    java = str(java_home() / "bin" / "java")
    level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [java, "-Xmx1g", level, "-cp", class_path, _MAIN]
