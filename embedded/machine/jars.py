"""The jars of the embedded servers, of Spark and of the tests, each by its coordinate.

`lock` resolves the roots with their transitive runtime dependencies; `fetch` only downloads what
the lock lists. The repository is the resolver library's default.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
from jgo.maven import Dependency, MavenContext

from embedded.errors import EmbeddedError
from embedded.paths import JARS
from embedded.progress import ProgressLine
from tidemark.errors import TidemarkError
from tidemark.jars import fetch as locked
from tidemark.jars.fetch import LOCK, TIMEOUT_S, LockedJar, sha256_of

ROOTS = {
    "cassandra": ("org.apache.cassandra:cassandra-all:5.0.9",),
    "spark": (
        "com.datastax.spark:spark-cassandra-connector_2.12:3.5.1",
        f"org.apache.spark:spark-avro_2.12:{pyspark.__version__}",
    ),
    "spark-kafka": (f"org.apache.spark:spark-sql-kafka-0-10_2.12:{pyspark.__version__}",),
    "spark-postgres": ("org.postgresql:postgresql:42.7.8",),
    "spark-iceberg": ("org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0",),
    "kafka": (
        "org.apache.kafka:kafka_2.13:4.1.1",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    "interop": (
        "org.apache.pekko:pekko-persistence-cassandra_2.13:1.1.0",
        "org.scala-lang:scala-compiler:2.13.15",
        "org.slf4j:slf4j-simple:1.7.26",
    ),
    "projection": (
        "org.apache.pekko:pekko-persistence-cassandra_2.13:1.1.0",
        "org.apache.pekko:pekko-projection-cassandra_2.13:1.0.0",
        "org.apache.pekko:pekko-projection-eventsourced_2.13:1.0.0",
        # Pekko refuses modules of several versions beside each other.
        "org.apache.pekko:pekko-actor-typed_2.13:1.1.3",
        "org.apache.pekko:pekko-slf4j_2.13:1.1.3",
        "org.slf4j:slf4j-simple:1.7.26",
    ),
    "interop-r2dbc": (
        "com.lightbend.akka:akka-persistence-r2dbc_2.13:1.1.2",
        "com.lightbend.akka:akka-projection-r2dbc_2.13:1.4.0",
        # Akka refuses modules of several versions beside each other.
        *(
            f"com.typesafe.akka:akka-{module}_2.13:2.8.5"
            for module in (
                "actor-typed",
                "cluster-sharding-typed",
                "cluster-tools",
                "discovery",
                "persistence-query",
                "persistence-typed",
                "serialization-jackson",
                "slf4j",
                "stream-typed",
            )
        ),
        "org.slf4j:slf4j-simple:1.7.36",
    ),
}
"""What each group is for; everything else in the lock follows from these.

`spark-kafka` is Spark's Kafka source, `spark-postgres` the driver for its JDBC source, `kafka` the
broker: groups of their own, so that the class path of what does not need them stays as it is.
`spark-iceberg` is Iceberg's runtime, which a run loads when it uses an Iceberg table. `interop` is
fetched by the tests only: Pekko's plugin, and the compiler for the client in tests/interop/client.
`interop-r2dbc` is fetched by the tests only, too: Akka's R2DBC plugin and projection in the last
releases whose licence has become Apache 2.0. `projection` is fetched by the benchmarks only:
Pekko's own projections.
"""


def fetch(group: str, directory: Path | None = None, lock: Path = LOCK) -> list[Path]:
    """Return the jars of a group, downloading those that are missing.

    Args:
        group: A section of the lock, one of `ROOTS`.
        directory: Where the jars are put, by default `JARS/<group>`.
        lock: The lock file.

    Raises:
        EmbeddedError: The group is unknown, a download failed, or a checksum differs.
    """
    progress = ProgressLine(f"jars/{group}")
    downloads: list[str] = []

    def say(text: str) -> None:
        downloads.append(text)
        progress.update(text)

    try:
        paths = locked.fetch(group, directory or JARS / group, say, lock)
    except TidemarkError as error:
        raise EmbeddedError(error.what, error.where, error.do) from error
    if downloads:
        progress.done(f"fetched {len(downloads)} of {len(downloads)}, checksums match")
    return paths


def lock(lock_file: Path = LOCK) -> None:
    """Resolve every group from its roots and write the lock anew.

    A jar of a group of Spark's that pyspark ships itself, in whatever version, is left out: Spark
    loads its own first, and a second scala-library or scala-reflect breaks it.
    """
    sections = []
    with tempfile.TemporaryDirectory(prefix="tidemark-lock-") as cache:
        context = MavenContext(repo_cache=Path(cache), timeout=TIMEOUT_S)
        for group, roots in ROOTS.items():
            progress = ProgressLine(f"jars/{group}")
            progress.update("resolving " + ", ".join(roots))
            jars = sorted(_resolve(context, roots, group))
            lines = [f"{jar.coordinate} {jar.sha256}" for jar in jars]
            sections.append("\n".join([f"[{group}]", *lines]) + "\n")
            progress.done(f"{len(jars)} jars locked")
    lock_file.write_text("\n".join(sections), encoding="utf-8")


def _resolve(context: MavenContext, roots: tuple[str, ...], group: str) -> Iterator[LockedJar]:
    inputs, transitive = context.resolver.resolve([context.create_dependency(r) for r in roots])
    # Native libraries have one artifact id under several classifiers: collect all of them.
    shipped = _shipped_by_spark() if group.startswith("spark") else frozenset()
    for dependency in (*inputs, *transitive):
        if dependency.artifactId not in shipped:
            coordinate = _coordinate(dependency)
            yield LockedJar(coordinate, sha256_of(dependency.artifact.resolve()))


def _coordinate(dependency: Dependency) -> str:
    parts = [dependency.groupId, dependency.artifactId, dependency.version, dependency.classifier]
    return ":".join(part for part in parts if part)


def _shipped_by_spark() -> frozenset[str]:
    names = (path.stem for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    return frozenset(re.sub(r"-\d.*", "", name) for name in names)
