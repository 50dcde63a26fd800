"""The ceiling: tag-view rows written by CQLSSTableWriter and imported, without CQL or Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from embedded.machine import jars
from embedded.machine.java import java_home
from tests.interop import build
from tidemark.cassandra.schema import SCHEMA_DIR

SOURCE = Path(__file__).parent / "ceiling" / "Ceiling.scala"
MAIN = "tidemark.benchmarks.Ceiling"
TABLE = "tag_views"
OPENED = ("java.lang", "java.io", "java.nio", "java.util", "sun.nio.ch", "jdk.internal.ref")


@dataclass(frozen=True)
class Ceiling:
    """Seconds of writing the files by one thread, and of importing them."""

    write_s: float
    import_s: float


def server_options(jmx_port: int) -> str:
    """Return the options that the server's JVM needs besides its own, to import files.

    JMX, which the embedded server has switched off, requests the import. The writer's files have
    the format of version 5, which a server does not read that could still go back to version 4.
    """
    settings = {
        "jmx.local.port": jmx_port,
        "config.allow_system_properties": "true",
        "settings.storage_compatibility_mode": "NONE",
    }
    return " ".join(f"-Dcassandra.{name}={value}" for name, value in settings.items())


def measure(
    home: Path, keyspace: str, jmx_port: int, ids: int, events: int, buckets: int
) -> Ceiling:
    """Write and import the rows of `synthetic`'s journal into a keyspace that has the table.

    Raises:
        RuntimeError: the program failed; the text holds its error output.
    """
    # Its Scala is the compiler's library; the other jars are the server's own.
    libraries = [*jars.fetch("cassandra"), *_scala_library()]
    classes = build.classes([SOURCE], home / "build", libraries)
    files = home / keyspace / TABLE
    shutil.rmtree(home / keyspace, ignore_errors=True)
    files.mkdir(parents=True)
    schema = home / "tag_views.cql"
    schema.write_text(_schema(keyspace))
    class_path = os.pathsep.join(map(str, [classes, *libraries]))
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    program = [str(java_home() / "bin" / "java"), "-Xmx2g", *opened, "-cp", class_path, MAIN]
    numbers = map(str, (ids, events, buckets))
    arguments = [str(schema), str(files), str(jmx_port), keyspace, TABLE, *numbers]
    ended = subprocess.run([*program, *arguments], capture_output=True, text=True, cwd=home)
    if ended.returncode:
        raise RuntimeError(f"{MAIN} ended with {ended.returncode}:\n{ended.stderr[-4000:]}")
    write_s, import_s = map(float, ended.stdout.splitlines()[-1].split())
    return Ceiling(write_s, import_s)


def _scala_library() -> list[Path]:
    return [path for path in jars.fetch("interop") if path.name.startswith("scala-library")]


def _schema(keyspace: str) -> str:
    """Return the CREATE TABLE of the tag views, as the applications make it."""
    text = (SCHEMA_DIR / "pekko.cql").read_text("utf-8").replace("${keyspace}", keyspace)
    statement = text[text.index(f"CREATE TABLE IF NOT EXISTS {keyspace}.{TABLE} ") :]
    return statement[: statement.index(";")]
