"""The context of a run, which the work of every application receives, and its outcome."""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tidemark import clock, termination
from tidemark.cassandra.control import Control
from tidemark.errors import TidemarkError
from tidemark.settings import Settings
from tidemark.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class RunState(StrEnum):
    """The final state of a run: NOTHING if there was no piece to do, PLANNED for a dry run."""

    DONE = "done"
    NOTHING = "nothing-to-do"
    PLANNED = "planned"
    FAILED = "failed"


@dataclass
class PieceCounts:
    """The numbers of a run's pieces by final state; in a dry run, by the state at the start."""

    planned: int = 0
    done: int = 0
    held: int = 0
    failed: int = 0


@dataclass
class Outcome:
    """The outcome of the work.

    Attributes:
        state: final state of the run.
        pieces: numbers of pieces by state.
        counts: numbers of things read, written and found, by name.
        lines: text for people, one fact per line.
        error: reason of the state FAILED, if the work still has counts to report.
        details: facts for programs other than counts; bounded in size, of JSON's types.
        done: smallest window around the done pieces, which applications downstream must process.
    """

    state: RunState
    pieces: PieceCounts = field(default_factory=PieceCounts)
    counts: Mapping[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    error: TidemarkError | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    done: Window | None = None


class RunContext:
    """The context of a run: settings, Cassandra session, identity, and Spark at first use."""

    def __init__(self, application: str, settings: Settings, control: Control, run_id: str) -> None:
        """Bind the context; do not start Spark yet."""
        self.application = application
        self.settings = settings
        self.control = control
        self.run_id = run_id
        self.owner = default_owner(run_id)
        self.moment = clock.now().replace(microsecond=0)
        """The time for computing ages, so that repeated plans of this run are equal."""
        self.started_at = self.moment
        """The start of the run, in whole seconds."""
        self.progress = PieceCounts()
        """The pieces started and done so far, for the report of a run that is ended."""
        self.counted = Counter[str]()
        """The counts of the pieces that have ended so far."""
        self.parts: dict[str, Mapping[str, Any]] = {}
        """The reports of other applications' runs within this one, by application."""
        self._log = logging.getLogger(f"tidemark.{application}")
        self._opening: Future[SparkSession] | None = None
        self._parent: RunContext | None = None

    def part(self, application: str) -> RunContext:
        """Return the context of another application's run within this one.

        It has its own run id, and shares this run's sessions with Cassandra and Spark.
        """
        part = RunContext(application, self.settings, self.control, f"{self.run_id}/{application}")
        part._parent = self
        return part

    @property
    def spark(self) -> SparkSession:
        """The Spark session, started at first use so that a run with nothing to do is quick.

        Raises:
            InvalidInput: jars or Java are missing.
        """
        if self._parent is not None:
            return self._parent.spark
        if self._opening is None:
            session = self._open_spark()
            self._opening = Future()
            self._opening.set_result(session)
        return self._opening.result()

    def start_spark(self) -> None:
        """Start Spark in the background; `spark` then waits for the start and raises its errors."""
        if self._parent is not None:
            return self._parent.start_spark()
        if self._opening is not None:
            return
        pool = ThreadPoolExecutor(1, thread_name_prefix="start-spark")
        self._opening = pool.submit(self._open_spark)
        pool.shutdown(wait=False)

    def _open_spark(self) -> SparkSession:
        from tidemark.cassandra import connector, row_sizes
        from tidemark.spark_session import open_session

        self.say("starting Spark")
        with termination.handlers_kept():
            spark = open_session(self.application, self.settings)
        connector.stamp_with(spark, self.control.write_times)
        row_sizes.measure(self.control, spark, self.settings)
        return spark

    def stop_jobs(self) -> None:
        """Cancel all Spark jobs and end all waiting to write: the run must not write any more."""
        if self._parent is not None:
            return self._parent.stop_jobs()
        self.control.stop_writing()
        opening = self._opening
        if opening is not None and opening.done() and opening.exception() is None:
            context = opening.result().sparkContext
            # Executors would log the traces of cancelled tasks after the error's one line.
            context.setLogLevel("OFF")
            context.cancelAllJobs()

    def say(self, text: str) -> None:
        """Log progress for people (see `tidemark.application.log`)."""
        self._log.info("%s", text, stacklevel=2)


def default_owner(run_id: str) -> str:
    """Return `host:pid:run id`, with which an operator finds the process."""
    return f"{socket.gethostname()}:{os.getpid()}:{run_id}"
