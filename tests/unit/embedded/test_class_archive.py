"""Spark's classes are archived once, used by every JVM that follows, and never in its way."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from embedded.machine.java import java_home
from embedded.spark import class_archive, installation


def java(options: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A JVM on the class path that Spark's own scripts make."""
    jars = Path(pyspark.__file__).parent
    command = [
        str(java_home() / "bin" / "java"),
        *options.split(),
        "-cp",
        f"{jars}/conf:{jars}/jars/*:{installation.variables()['SPARK_DIST_CLASSPATH']}",
    ]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("org.apache.spark.deploy.SparkSubmit", 0),
        # It is loaded, and then has no main method.
        ("com.datastax.spark.connector.cql.CassandraConnector", 1),
    ],
)
def test_a_spark_jvm_takes_its_classes_from_the_archive(name: str, status: int) -> None:
    loaded = java(f"{class_archive.options()} -Xlog:class+load", name, "--version")
    assert loaded.returncode == status, loaded.stderr
    [line] = [line for line in loaded.stdout.splitlines() if f" {name} source" in line]
    assert "shared objects file (top)" in line


def test_it_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = class_archive.options()
    monkeypatch.setattr(class_archive, "_make", lambda archive: pytest.fail("made again"))
    assert class_archive.options() == made
    for name, value in installation.variables().items():
        monkeypatch.setenv(name, value)
    assert class_archive.options() == made, "not the same within its own environment"


def test_an_archive_that_does_not_fit_is_ignored_in_silence(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsa"
    broken.write_bytes(b"no archive")
    archive = class_archive.options().split()[0].partition("=")[2]
    options = class_archive.options().replace(archive, str(broken))
    ended = java(options, "org.apache.spark.deploy.SparkSubmit", "--version")
    assert ended.returncode == 0, ended.stderr
    assert "broken" not in ended.stdout + ended.stderr


def test_without_an_archive_there_are_no_options_and_a_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    training = tmp_path / "training.py"
    training.write_text("raise SystemExit(1)")
    monkeypatch.setattr(class_archive, "TRAINING", training)
    monkeypatch.setattr(class_archive, "JARS", tmp_path / "jars")
    young, old = (tmp_path / "jars" / f"spark-{name}.jsa" for name in ("young", "old"))
    young.parent.mkdir()
    for other in (young, old):
        other.touch()
    os.utime(old, (0, 0))
    assert class_archive.options() == ""
    assert "every start will take longer" in capsys.readouterr().err
    assert young.exists(), "that of another checkout which shares the jars"
    assert not old.exists()
    assert class_archive.options() == ""
    assert capsys.readouterr().err == "", "it was tried again"
