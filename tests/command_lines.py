"""The command lines of the applications, as typer makes them of their declarations."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import typer
from typer.main import get_command

SPARK_APPS = Path(__file__).resolve().parents[1] / "spark_apps"


def command_line(application: str) -> Any:
    """Return the command line that `spark_apps/<application>.py` makes; nothing is run."""
    made: list[typer.Typer] = []
    script = SPARK_APPS / f"{application}.py"
    with (
        patch.object(typer.Typer, "__call__", lambda line, *_, **__: made.append(line)),
        patch.object(sys, "argv", [str(script)]),
        patch.object(sys, "path", [str(SPARK_APPS), *sys.path]),
    ):
        runpy.run_path(str(script), run_name="__main__")
    return get_command(made[0])
