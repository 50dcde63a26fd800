"""replicate beside the plain connector; an increment behind little and behind much; its memory.

A topic of 20 partitions has `BENCH_EVENTS` (default 1,000,000) appends of one event of 100 bytes,
of `BENCH_KEYS` (10,000) keys, in kafka-journal's binary form. The rows that replicate has written
are then written once more by the plain connector, with Tidemark's settings of it, from the local
disk and in the order of the table's partitions: only the write is measured. So is decoding alone.

An increment has 1,000 records; it is measured behind a tenth of the topic and behind all of it, in
turns, `BENCH_ROUNDS` (3) times. All that runs in one process with one session, and a first round
counts for nothing. The memory is that of processes of their own, with a tenth and with all of the
topic as their backlog.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark import StorageLevel
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from benchmarks.journals import Bench, fresh_server, settings_of, table_of
from embedded.kafka.server import Kafka
from embedded.paths import STATE
from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import SCHEMA_DIR, create_keyspace, create_tables
from tidemark.context import RunContext, RunState
from tidemark.journals.kafka.wire.decode import decoded
from tidemark.ledger.applications import REPLICATE
from tidemark.replicate.kafka.records import records
from tidemark.replicate.kafka.topics import Topics
from tidemark.replicate.run import run_replicate
from tidemark.settings import Settings

EVENTS = int(os.environ.get("BENCH_EVENTS", "1000000"))
KEYS = int(os.environ.get("BENCH_KEYS", "10000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
PARTITIONS = 20
INCREMENT = 1000
PAYLOAD_BYTES = 100
GOAL = 0.5
KAFKA_HOME = STATE / "bench" / "kafka"
_STARTED = time.monotonic()


def main() -> None:
    """Measure and print the tables of benchmarks/README.md."""
    with fresh_server() as (endpoint, server), _kafka() as address:
        bench = Bench(endpoint, server, "bench")
        environment = bench.environment(TIDEMARK_KAFKA_BOOTSTRAP_SERVERS=address)
        with patch.dict(os.environ, environment):
            _measure(bench, address)


@contextmanager
def _kafka() -> Iterator[str]:
    shutil.rmtree(KAFKA_HOME, ignore_errors=True)
    broker = Kafka(KAFKA_HOME)
    try:
        yield broker.start()
    finally:
        broker.stop()


class Tenant:
    """A topic, and the keyspace that it is replicated into."""

    def __init__(self, name: str, control: Control, address: str) -> None:
        self.name = name
        self._control = control
        self._written = 0
        self.variables = {
            "TIDEMARK_KAFKA_BOOTSTRAP_SERVERS": address,
            "TIDEMARK_KAFKA_JOURNAL_KEYSPACE": name,
            "TIDEMARK_KAFKA_TOPIC_PREFIX": f"{name}-",
        }
        self.settings: Settings = settings_of({**os.environ, **self.variables})
        self.topic = f"{name}-journal"
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic(self.topic, PARTITIONS)])[self.topic].result(60)

    def publish(self, spark: SparkSession, events: int) -> None:
        """Append events, one a record, to all keys in turns."""
        first, self._written = self._written, self._written + events
        number = F.col("id") + first
        rows = spark.range(events).select(
            F.concat(F.lit("key-"), number % KEYS).alias("key"),
            (number % KEYS % PARTITIONS).cast("int").alias("partition"),
            _value(F.expr(f"(id + {first}) div {KEYS}") + 1).alias("value"),
            F.array(
                F.struct(
                    F.lit("journal.action").alias("key"),
                    _header(F.expr(f"(id + {first}) div {KEYS}") + 1).alias("value"),
                )
            ).alias("headers"),
        )
        options = {
            "kafka.bootstrap.servers": self.settings.kafka_bootstrap_servers,
            "topic": self.topic,
            "includeHeaders": "true",
            # With several at once this client may put records of a new topic out of order for ever.
            "kafka.max.in.flight.requests.per.connection": "1",
        }
        rows.write.format("kafka").options(**options).save()

    def run(self) -> RunContext:
        """Return the context of one more run; Spark's session is the one there is."""
        return RunContext(REPLICATE, self.settings, self._control, f"bench-{time.monotonic_ns()}")

    def replicate(self) -> None:
        """Replicate what there is.

        Raises:
            RuntimeError: it did not.
        """
        outcome = run_replicate(self.run())
        if outcome.state is not RunState.DONE:
            raise RuntimeError(f"{outcome.state}: {outcome.lines}")


def _header(number: Column) -> Column:
    text = F.format_string(
        '{"append":{"range":{"from":%d,"to":%d},"origin":"bench","version":"11.0.0",'
        '"payloadType":"binary","metadata":{}}}',
        number,
        number,
    )
    return F.encode(text, "UTF-8")


def _value(number: Column) -> Column:
    """Return an append of one event in the binary form: the sizes are big-endian."""

    def integer(value: Column, octets: int) -> Column:
        return F.lpad(F.hex(value), 2 * octets, "0")

    payload = F.hex(
        F.encode(F.rpad(F.concat(F.lit("event "), number), PAYLOAD_BYTES, "x"), "utf-8")
    )
    event = F.concat(
        integer(number, 8),
        F.lit("00000007" + "00000003" + b"red".hex()),
        F.lit("01"),
        integer(F.lit(PAYLOAD_BYTES), 4),
        payload,
    )
    size = F.expr(f"{8 + 11 + 5 + PAYLOAD_BYTES}")
    framed = F.concat(F.lit("0100000001"), integer(size, 4), event, F.lit(b"{}".hex()))
    return F.unhex(framed)


def _measure(bench: Bench, address: str) -> None:
    with Control(settings_of(dict(os.environ))) as control:
        tenants = {name: Tenant(name, control, address) for name in ("warm", "tenth", "whole")}
        spark = tenants["warm"].run().spark
        _say("the round that does not count")
        tenants["warm"].publish(spark, EVENTS // 20)
        tenants["warm"].replicate()
        for name, events in (("tenth", EVENTS // 10), ("whole", EVENTS)):
            _say(f"publishing {events:,} events")
            tenants[name].publish(spark, events)
        taken = {}
        _say("replicating a tenth")
        taken["replicate, a tenth"] = _seconds(tenants["tenth"].replicate)
        _say("replicating")
        taken["replicate"] = _seconds(tenants["whole"].replicate)
        _say("decoding")
        taken["decoding alone"] = _seconds(lambda: _decode(spark, tenants["whole"]))
        taken["plain connector"] = _plain(spark, control, tenants["whole"].settings)
        increments: dict[str, list[float]] = {"tenth": [], "whole": []}
        for turn in range(ROUNDS + 1):
            for name, times in increments.items():
                _say(f"increment {turn} of {ROUNDS} behind the {name}")
                tenants[name].publish(spark, INCREMENT)
                times.append(_seconds(tenants[name].replicate))
        spark.stop()
        memory = {name: _peak(bench, tenants[name], control) for name in increments}
    console = Console(width=120)
    console.print(_speed_table(taken))
    console.print(_increment_table({name: times[1:] for name, times in increments.items()}, memory))


def _decode(spark: SparkSession, tenant: Tenant) -> None:
    topics = Topics(tenant.settings)
    held = topics.offsets(topics.partitions())
    spans = {one: (offsets.first, offsets.end) for one, offsets in held.items()}
    frame = decoded(records(spark, tenant.settings, spans))
    frame.write.format("noop").mode("append").save()


def _plain(spark: SparkSession, control: Control, settings: Settings) -> float:
    """Write the same rows of journal once more; return the seconds."""
    keyspace = "plain"
    create_keyspace(control, keyspace, settings.replication)
    create_tables(control, SCHEMA_DIR / "kafka_journal.cql", keyspace)
    columns = control.table_columns(keyspace, settings.kafka_journal_table) or {}
    stored = connector.read(
        spark, settings.kafka_journal_keyspace, settings.kafka_journal_table, *columns
    )
    place = ("topic", "id", "segment")
    rows = stored.repartition(*place).sortWithinPartitions(*place, "seq_nr")
    rows = rows.persist(StorageLevel.DISK_ONLY)
    _say(f"the plain connector writes {rows.count():,} rows")
    return _seconds(lambda: connector.write(rows, keyspace, settings.kafka_journal_table))


def _peak(bench: Bench, tenant: Tenant, control: Control) -> float:
    """Replicate the whole topic into another keyspace; return the peak in MiB."""
    _say(f"a process of its own replicates {tenant.topic}")
    variables = {**tenant.variables, "TIDEMARK_KAFKA_JOURNAL_KEYSPACE": f"{tenant.name}_again"}
    return bench.run("spark_apps/replicate.py", **variables).peak_mib


def _speed_table(taken: dict[str, float]) -> Table:
    title = f"{EVENTS:,} events of {KEYS:,} keys, {PARTITIONS} topic partitions, local[2]"
    table = table_of(title, "s", "events/s", "ratio")
    plain = EVENTS / taken["plain connector"]
    for name, seconds in taken.items():
        events = EVENTS // 10 if name.endswith("a tenth") else EVENTS
        rate = events / seconds
        table.add_row(name, f"{seconds:.1f}", f"{rate:,.0f}", f"{rate / plain:.2f}")
    table.caption = f"the goal of replicate is {GOAL}"
    return table


def _increment_table(increments: dict[str, list[float]], memory: dict[str, float]) -> Table:
    title = f"{INCREMENT:,} new records behind a tenth of them and behind all; the backlog's memory"
    table = table_of(title, "s", "ratio", "peak MiB with it as backlog")
    first = statistics.median(increments["tenth"])
    for name, times in increments.items():
        median = statistics.median(times)
        table.add_row(name, f"{median:.1f}", f"{median / first:.2f}", f"{memory[name]:,.0f}")
    return table


def _seconds(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _say(text: str) -> None:
    print(f"{time.monotonic() - _STARTED:6.0f} s  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
