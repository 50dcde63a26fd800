"""The command line, configuration and log of the Cassandra child process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

import yaml

from embedded.machine import jars
from embedded.machine.java import java_home
from embedded.paths import CONF

HEAP = "1G"
"""Pinned, so that the demo and the benchmarks measure the same server everywhere."""

_MAIN_CLASS = "org.apache.cassandra.service.CassandraDaemon"


def prepare(
    home: Path, ports: dict[str, int], options: Mapping[str, object], flags: Sequence[str]
) -> list[str]:
    """Write the configuration below `home/conf` and return the command to run.

    Args:
        home: The node's directory.
        ports: `native` for clients, `storage` for the (only) node itself.
        options: Options of cassandra.yaml in place of those of embedded/conf.
        flags: Options of the JVM after those of embedded/conf.
    """
    values = {
        "home": str(home),
        "config_uri": (home / "conf" / "cassandra.yaml").as_uri(),
        "heap": HEAP,
        "storage_port": str(ports["storage"]),
        "native_port": str(ports["native"]),
    }
    (home / "conf").mkdir(parents=True, exist_ok=True)
    (home / "tmp").mkdir(exist_ok=True)
    text = Template((CONF / "cassandra.yaml").read_text("utf-8")).substitute(values)
    if options:
        text = yaml.safe_dump(yaml.safe_load(text) | options)
    (home / "conf" / "cassandra.yaml").write_text(text, encoding="utf-8")
    logback = (CONF / "logback.xml").read_text("utf-8")
    (home / "conf" / "logback.xml").write_text(logback, encoding="utf-8")
    return _command(home, values, flags)


def log_file(home: Path) -> Path:
    """Return the log that tells most about the node's end: its own, or the JVM's output."""
    own = home / "logs" / "system.log"
    return own if own.exists() and own.stat().st_size else output_file(home)


def output_file(home: Path) -> Path:
    """Return the file of the JVM's own output."""
    return home / "logs" / "output.log"


def _command(home: Path, values: dict[str, str], more: Sequence[str]) -> list[str]:
    libraries = jars.fetch("cassandra")
    agent = next(path for path in libraries if path.name.startswith("jamm-"))
    class_path = os.pathsep.join([str(home / "conf"), *map(str, libraries)])
    options = Template((CONF / "cassandra-jvm.options").read_text("utf-8")).substitute(values)
    flags = [line for line in options.splitlines() if line.startswith("-")]
    java = str(java_home() / "bin" / "java")
    return [java, f"-javaagent:{agent}", *flags, *more, "-cp", class_path, _MAIN_CLASS]
