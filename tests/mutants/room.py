"""The mutants of one room, each judged in a process of its own. Runs in a copy of the tree.

This process loads what the tests import, and starts Spark if they need it. For each mutant it
forks: the child forgets all modules of this project and runs pytest, so nothing of a mutant
outlives it, and no mutant waits for Spark.
"""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.mutants.mutations import Mutant, mutants_of
from tests.mutants.table import LIBRARY, ROOT, Module, rooms

SEED = 2013
"""Of samples."""
OWN = ("tidemark", "tidemark_airflow", "embedded", "tests")
AT_LEAST_S = 20.0
TIMES_LONGER = 6
"""A mutant has run in a circle if its tests take so many times longer than those of the module."""
OPTIONS = (
    *("-x", "-q", "-p", "no:cacheprovider", "--tb=no", "--timeout=0"),
    "--hypothesis-profile=mutants",
)


def main(room: str) -> None:
    """Judge the mutants of a room, and write a line of JSON for each."""
    results = os.fdopen(os.dup(1), "w")
    log = os.open("mutants.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    for module in rooms()[room]:

        def tell(**said: Any) -> None:
            print(json.dumps({"module": module.path, **said}), file=results, flush=True)  # noqa: B023

        _judge(module, tell)


def _judge(module: Module, tell: Callable[..., None]) -> None:
    file = ROOT / LIBRARY / module.path
    source = file.read_text()
    chosen = [
        mutant
        for mutant in mutants_of(source)
        if not module.only or mutant.definition.partition(".")[0] in module.only
    ]
    if module.sample:
        chosen = random.Random(SEED).sample(chosen, min(module.sample, len(chosen)))
    if module.spark:
        _start_spark()
    _require(pytest.main([*OPTIONS, *module.test_files]) == 0, module, "before any mutant")
    gc.freeze()
    begun = time.monotonic()
    _require(_outcome(module, 900) == "survived", module, "in a process of their own")
    limit = max(AT_LEAST_S, TIMES_LONGER * (time.monotonic() - begun))
    tell(mutants=len(chosen), limit=round(limit))
    try:
        for mutant in chosen:
            file.write_text(mutant.text)
            outcome = _outcome(module, limit)
            if outcome == "timeout" and module.spark:
                _active().cancelAllJobs()
            tell(outcome=outcome, **_words(mutant))
    finally:
        file.write_text(source)
    _require(_outcome(module, limit) == "survived", module, "after all mutants")


def _words(mutant: Mutant) -> dict[str, str]:
    return {"in": mutant.definition, "before": mutant.before, "after": mutant.after}


def _require(passes: bool, module: Module, moment: str) -> None:
    if not passes:
        raise SystemExit(f"{' '.join(module.test_files)} fail {moment}, see mutants.log")


def _outcome(module: Module, limit: float) -> str:
    """Run the tests of a module in a child; tell whether its mutant has survived them."""
    shutil.rmtree(".hypothesis", ignore_errors=True)
    child = os.fork()
    if child == 0:
        _run(module.test_files)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return "survived" if status == 0 else "killed"
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def _run(files: Sequence[str]) -> None:
    code = 1
    try:
        os.setsid()
        for name in [name for name in sys.modules if name.partition(".")[0] in OWN]:
            del sys.modules[name]
        if SparkContext._active_spark_context is not None:
            # A connection that is shared with the parent would mix up both one's answers.
            gateway: Any = _active()._gateway
            gateway._gateway_client.thread_connection = threading.local()
        code = int(pytest.main([*OPTIONS, *files]))
    finally:
        # Nothing is closed: what is open belongs to the parent.
        os._exit(code)


def _active() -> SparkContext:
    context = SparkContext._active_spark_context
    assert context is not None
    return context


def _start_spark() -> None:
    """Let the session that the next tests start outlive them, and its workers forget modules."""
    SparkSession.stop = lambda self: None  # type: ignore[method-assign]
    real = SparkSession.Builder.getOrCreate

    def started(self: SparkSession.Builder) -> SparkSession:
        return real(self.config("spark.python.worker.reuse", "false"))

    SparkSession.Builder.getOrCreate = started  # type: ignore[method-assign]


if __name__ == "__main__":
    main(sys.argv[1])
