"""Classes of Spark and the connector, parsed once and kept for the JVMs that follow.

This is the JVM's own class data sharing; `benchmarks.shortcuts` measures what it saves. An archive
that does not fit the JVM or its class path is ignored by it, so a stale one costs nothing but the
time that it would have saved.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pyspark

from embedded.machine import jars, state_dir
from embedded.machine.java import java_home
from embedded.paths import JARS
from embedded.progress import ProgressLine
from embedded.spark import installation

TRAINING = Path(__file__).resolve().parent / "class_training.py"
# Whatever it has to say about an archive, the applications' output is not the place for it.
_SILENT = "-Xlog:disable -Xlog:all=error:stderr"
_DEADLINE_S = 180
_STALE_S = 7 * 86_400
"""Seconds for which nobody has used an archive that is removed when another is made."""


def options() -> str:
    """Return the JVM options that use the archive, which is made when it is missing.

    Empty if it cannot be made, as by a runtime without an archive of its own: that is said, an
    empty file keeps it from being tried again, and nothing depends on it.
    """
    archive = JARS / f"spark-{_fingerprint()}.jsa"
    with state_dir.one_starter(JARS):
        if not archive.exists():
            _make(archive)
        os.utime(archive)
        is_empty = not archive.stat().st_size
    if is_empty:
        return ""
    return " ".join([shlex.quote(f"-XX:SharedArchiveFile={archive}"), _SILENT])


def _fingerprint() -> str:
    """Hash everything that an archive must fit: the JVM, Spark, and what the training loads."""
    modules = java_home() / "lib" / "modules"
    spark = Path(pyspark.__file__).parent
    what = [modules, modules.stat().st_mtime_ns, spark, pyspark.__version__, TRAINING.read_text()]
    what.append(installation.variables()["SPARK_DIST_CLASSPATH"])
    return hashlib.sha256("\0".join(map(str, what)).encode()).hexdigest()[:12]


def _make(archive: Path) -> None:
    progress = ProgressLine("spark")
    progress.update("keeping Spark's classes for faster starts")
    # A younger one may be that of another checkout, which shares the jars.
    for other in archive.parent.glob("spark-*.jsa"):
        if time.time() - other.stat().st_mtime > _STALE_S:
            other.unlink()
    # It appears under its name only when it is whole.
    with tempfile.TemporaryDirectory(prefix=".archive-", dir=archive.parent) as directory:
        made = Path(directory) / archive.name
        environment = {
            **os.environ,
            **installation.variables(),
            "SPARK_SUBMIT_OPTS": " ".join(
                [shlex.quote(f"-XX:ArchiveClassesAtExit={made}"), _SILENT]
            ),
        }
        environment.pop("SPARK_CONF_DIR", None)
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, str(TRAINING), *map(str, jars.fetch("spark"))],
                env=environment,
                capture_output=True,
                timeout=_DEADLINE_S,
                cwd=directory,
            )
        is_made = made.exists()
        if not is_made:
            made.touch()
        os.replace(made, archive)
    progress.done(
        "keeps Spark's classes for faster starts"
        if is_made
        else "no archive of Spark's classes; every start will take longer"
    )
