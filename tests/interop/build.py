"""The build of the Pekko and the Akka client, by the locked Scala compiler and any Java 17."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from embedded.machine import jars
from embedded.machine.java import java_home
from tidemark.jars.fetch import LOCK

_CLIENT = Path(__file__).with_name("client")
_AKKA_CLIENT = Path(__file__).with_name("akka_client")
_DEADLINE_S = 300


@dataclass(frozen=True)
class Program:
    """A client: its jars, which are a group of the lock, its main class and its sources."""

    jars: str
    main: str
    sources: tuple[Path, ...]

    def command(self, state: Path) -> list[str]:
        """Return the command that starts the client, compiled first if its source or a jar changed.

        Args:
            state: The state directory; classes go to a directory with the name of the jars.

        Raises:
            EmbeddedError: A jar cannot be fetched.
            RuntimeError: The compiler refuses the source; the message is the compiler's.
        """
        libraries = jars.fetch(self.jars)
        home = classes(list(self.sources), state / self.jars, libraries)
        class_path = os.pathsep.join(map(str, [home, *libraries]))
        logging = ("defaultLogLevel=warn", "showDateTime=true")
        return [
            str(java_home() / "bin" / "java"),
            "-Xmx512m",
            *(f"-Dorg.slf4j.simpleLogger.{setting}" for setting in logging),
            "-cp",
            class_path,
            self.main,
        ]


PEKKO = Program("interop", "tidemark.interop.Main", tuple(sorted(_CLIENT.glob("*.scala"))))
AKKA = Program(
    "interop-r2dbc",
    "tidemark.interop.AkkaMain",
    (
        *(_CLIENT / name for name in ("Commands.scala", "Json.scala")),
        *sorted(_AKKA_CLIENT.glob("*.scala")),
    ),
)


def classes(sources: list[Path], home: Path, libraries: list[Path]) -> Path:
    """Return the directory of the classes, compiled first if a source or the jars' lock changed.

    Args:
        sources: The Scala files.
        home: A directory of this build's own.
        libraries: The class path, with or without the compiler.

    Raises:
        EmbeddedError: A jar cannot be fetched.
        RuntimeError: The compiler refuses the source; the message is the compiler's.
    """
    stamp = home / "compiled"
    digest = _digest(sources)
    if not stamp.exists() or stamp.read_text() != digest:
        shutil.rmtree(home, ignore_errors=True)
        _compile(sources, libraries, home / "classes")
        stamp.write_text(digest)
    return home / "classes"


def _digest(sources: list[Path]) -> str:
    digest = hashlib.sha256(LOCK.read_bytes())
    for source in sources:
        digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()


def _compile(sources: list[Path], libraries: list[Path], target: Path) -> None:
    """Call the compiler's main class, which needs no more than a runtime without `javac`."""
    target.mkdir(parents=True)
    compiler = os.pathsep.join(map(str, jars.fetch("interop")))
    class_path = os.pathsep.join(map(str, libraries))
    compiled = subprocess.run(
        [
            str(java_home() / "bin" / "java"),
            *("-cp", compiler, "scala.tools.nsc.Main"),
            *("-cp", class_path, "-d", str(target)),
            *("-encoding", "UTF-8", "-deprecation", "-feature", "-Xlint", "-Werror"),
            *map(str, sources),
        ],
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
    )
    if compiled.returncode:
        names = ", ".join(source.name for source in sources)
        raise RuntimeError(f"{names} do not compile:\n{compiled.stderr[-4000:]}")
