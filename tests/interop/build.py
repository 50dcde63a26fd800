"""The Pekko client, compiled by the locked Scala compiler with whatever Java 17 there is."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from embedded import jars
from embedded.java import java_home

SOURCES = Path(__file__).parent / "client"
MAIN = "tidemark.interop.Main"
_DEADLINE_S = 300


def command(state: Path) -> list[str]:
    """The command that starts the client; it is compiled first if its source or a jar changed.

    Args:
        state: The state directory; classes go to `interop/classes` below it.

    Raises:
        EmbeddedError: A jar cannot be fetched.
        RuntimeError: The compiler refuses the source; the message is the compiler's.
    """
    libraries = jars.fetch("interop")
    home = state / "interop"
    stamp = home / "compiled"
    wanted = _digest()
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(home, ignore_errors=True)
        _compile(libraries, home / "classes")
        stamp.write_text(wanted)
    class_path = os.pathsep.join(map(str, [home / "classes", *libraries]))
    logging = ("defaultLogLevel=warn", "showDateTime=true")
    return [
        str(java_home() / "bin" / "java"),
        "-Xmx512m",
        *(f"-Dorg.slf4j.simpleLogger.{setting}" for setting in logging),
        "-cp",
        class_path,
        MAIN,
    ]


def _sources() -> list[Path]:
    return sorted(SOURCES.glob("*.scala"))


def _digest() -> str:
    digest = hashlib.sha256(jars.LOCK.read_bytes())
    for source in _sources():
        digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()


def _compile(libraries: list[Path], classes: Path) -> None:
    """Call the compiler's main class: a runtime without `javac` is enough for it."""
    classes.mkdir(parents=True)
    class_path = os.pathsep.join(map(str, libraries))
    compiled = subprocess.run(
        [
            str(java_home() / "bin" / "java"),
            *("-cp", class_path, "scala.tools.nsc.Main"),
            *("-cp", class_path, "-d", str(classes)),
            *("-encoding", "UTF-8", "-deprecation", "-feature", "-Xlint", "-Werror"),
            *map(str, _sources()),
        ],
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
    )
    if compiled.returncode:
        raise RuntimeError(f"the Pekko client does not compile:\n{compiled.stderr[-4000:]}")
