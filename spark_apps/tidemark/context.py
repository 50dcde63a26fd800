"""What the work of every application needs, and how it says that it has ended."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from tidemark.cassandra.control import Control
from tidemark.errors import TidemarkError
from tidemark.settings import Settings
from tidemark.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class RunState(StrEnum):
    """How a run ended: NOTHING if no piece was to do, PLANNED if it was a dry run."""

    DONE = "done"
    NOTHING = "nothing-to-do"
    PLANNED = "planned"
    FAILED = "failed"


@dataclass
class PieceCounts:
    """How many pieces a run had, and how they ended; in a dry run, how they would begin."""

    planned: int = 0
    done: int = 0
    held: int = 0
    failed: int = 0


@dataclass
class Outcome:
    """How the work ended.

    Attributes:
        state: see `RunState`.
        pieces: how many there were.
        counts: what was read, written and found, each under its own name.
        lines: for people, one fact a line.
        error: why the work FAILED, when it has counts to report nevertheless.
        details: what is no count, for programs; bounded, of JSON's types.
        done: the hull of the pieces that were done: what applications downstream have to look at.
    """

    state: RunState
    pieces: PieceCounts = field(default_factory=PieceCounts)
    counts: Mapping[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    error: TidemarkError | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    done: Window | None = None


class RunContext:
    """What the work needs: settings, control plane, Spark when it is first asked for, identity."""

    def __init__(self, application: str, settings: Settings, control: Control, run_id: str) -> None:
        """Bind; Spark is not started."""
        self.application = application
        self.settings = settings
        self.control = control
        self.run_id = run_id
        self.owner = default_owner(run_id)
        self._log = logging.getLogger(f"tidemark.{application}")
        self._opening: Future[SparkSession] | None = None

    @property
    def spark(self) -> SparkSession:
        """The Spark session, started at the first use, so that a run with nothing to do is quick.

        Raises:
            InvalidInput: jars or Java are missing.
        """
        if self._opening is None:
            session = self._open_spark()
            self._opening = Future()
            self._opening.set_result(session)
        return self._opening.result()

    def start_spark(self) -> None:
        """Start Spark beside what is done next; who asks for `spark` waits, and gets its errors."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="start-spark")
        self._opening = pool.submit(self._open_spark)
        pool.shutdown(wait=False)

    def _open_spark(self) -> SparkSession:
        from tidemark.cassandra import row_sizes
        from tidemark.spark_session import open_session

        self.say("starting Spark")
        spark = open_session(self.application, self.settings)
        row_sizes.measure(self.control, spark, self.settings)
        return spark

    def stop_jobs(self) -> None:
        """Cancel what Spark is doing, because a lock was lost."""
        opening = self._opening
        if opening is not None and opening.done() and opening.exception() is None:
            opening.result().sparkContext.cancelAllJobs()

    def say(self, text: str) -> None:
        """Log progress for people; `tidemark.application.log` says where it goes."""
        self._log.info("%s", text, stacklevel=2)


def default_owner(run_id: str) -> str:
    """`host:pid:run id`: enough for an operator to find the process."""
    return f"{socket.gethostname()}:{os.getpid()}:{run_id}"
