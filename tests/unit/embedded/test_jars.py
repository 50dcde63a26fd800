from __future__ import annotations

import hashlib
from itertools import chain
from pathlib import Path

import pytest
from jgo.maven import Artifact

from embedded.errors import EmbeddedError
from embedded.machine import jars
from tidemark.jars.fetch import LOCK

SERVED = b"what the repository serves"
GOOD = hashlib.sha256(SERVED).hexdigest()
BAD = hashlib.sha256(b"what was locked").hexdigest()


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answer downloads from here, and tell which were asked for."""
    asked: list[str] = []

    def resolve(artifact: Artifact) -> Path:
        asked.append(artifact.filename)
        path = artifact.context.repo_cache / artifact.filename
        path.write_bytes(SERVED)
        return path

    monkeypatch.setattr(Artifact, "resolve", resolve)
    return asked


def write_lock(directory: Path, *lines: str) -> Path:
    lock = directory / "jars.lock"
    lock.write_text("\n".join(["[g]", *lines, "", "[other]", f"o:o:1 {BAD}", ""]), "utf-8")
    return lock


def test_fetch_downloads_what_is_missing_and_only_that(
    tmp_path: Path, downloads: list[str]
) -> None:
    lock = write_lock(tmp_path, f"org.a:one:1.0 {GOOD}", f"org.a:two:2.0:linux {GOOD}")
    expected = [tmp_path / "lib" / "one-1.0.jar", tmp_path / "lib" / "two-2.0-linux.jar"]

    assert jars.fetch("g", tmp_path / "lib", lock) == expected
    assert sorted(downloads) == ["one-1.0.jar", "two-2.0-linux.jar"]
    expected[0].unlink()
    downloads.clear()

    assert jars.fetch("g", tmp_path / "lib", lock) == expected
    assert downloads == ["one-1.0.jar"]
    assert sorted((tmp_path / "lib").iterdir()) == expected


def test_fetch_removes_jars_that_the_lock_no_longer_lists(
    tmp_path: Path, downloads: list[str]
) -> None:
    jars.fetch("g", tmp_path / "lib", write_lock(tmp_path, f"org.a:one:1.0 {GOOD}"))
    new = jars.fetch("g", tmp_path / "lib", write_lock(tmp_path, f"org.a:one:1.1 {GOOD}"))

    assert list((tmp_path / "lib").iterdir()) == new == [tmp_path / "lib" / "one-1.1.jar"]


@pytest.mark.usefixtures("downloads")
def test_fetch_refuses_a_download_with_another_checksum(tmp_path: Path) -> None:
    lock = write_lock(tmp_path, f"org.a:one:1.0 {BAD}")

    with pytest.raises(EmbeddedError) as refused:
        jars.fetch("g", tmp_path / "lib", lock)

    assert str(refused.value) == (
        f"checksum of org.a:one:1.0 is {GOOD[:12]}..., the lock says {BAD[:12]}...: "
        "refused the download; run again; if it stays, the repository served another file: "
        "do not use it"
    )
    assert list((tmp_path / "lib").iterdir()) == []


def test_fetch_refuses_a_jar_that_was_changed_on_disk(tmp_path: Path, downloads: list[str]) -> None:
    lock = write_lock(tmp_path, f"org.a:one:1.0 {GOOD}")
    [jar] = jars.fetch("g", tmp_path / "lib", lock)
    jar.write_bytes(b"changed")
    downloads.clear()

    with pytest.raises(EmbeddedError, match=r"^checksum of org\.a:one:1\.0 .*delete the file"):
        jars.fetch("g", tmp_path / "lib", lock)
    assert downloads == []


def test_fetch_refuses_an_unknown_group(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match="no jars are locked for group 'nothing'"):
        jars.fetch("nothing", tmp_path / "lib", write_lock(tmp_path, f"org.a:one:1.0 {GOOD}"))


def test_the_lock_holds_every_root_and_nothing_that_spark_brings_itself() -> None:
    lock = LOCK.read_text("utf-8")

    for root in (*chain(*jars.ROOTS.values()), "com.github.jbellis:jamm:0.4.0"):
        assert f"\n{root} " in lock
    spark = lock.partition("[spark]")[2].partition("\n[")[0]
    for artifact in ("scala-library", "scala-reflect", "slf4j-api", "commons-lang3"):
        assert f":{artifact}:" not in spark
