"""Functions that the groups of test_data.py call."""

from __future__ import annotations

import os
import subprocess
import time
from decimal import Decimal
from pathlib import Path
from typing import Any


def doubled(rows: list[dict[str, Any]]) -> list[Decimal]:
    print("this stands between no answers")
    return [row["amount"] * 2 for row in rows]


def total(rows: list[dict[str, Any]]) -> Decimal:
    return sum((row["amount"] for row in rows), Decimal())


def noted(asked: dict[str, Any]) -> str:
    assert not [name for name in os.environ if name.startswith("TIDEMARK_")]
    return f"{asked['group']}/{asked['event']}/{asked['parameter']}"


def too_few(rows: list[dict[str, Any]]) -> list[int]:
    return [1]


def sleeps(_: Any) -> None:
    time.sleep(600)


def dies(_: Any) -> None:
    os._exit(1)


def broken(rows: list[dict[str, Any]]) -> object:
    return rows[7]


def taken_back(told: dict[str, Any]) -> None:
    with (Path(__file__).parent / "taken_back.txt").open("a") as file:
        file.write(f"{told['event']} {told['parameters']}\n")


def told(notice: dict[str, Any]) -> None:
    with (Path(__file__).parent / "told.txt").open("a") as file:
        file.write(f"{notice['event']} {notice['told']} {notice['id']}\n")


def refuses(_: Any) -> None:
    raise ValueError("not today")


def helps(asked: dict[str, Any]) -> None:
    null = subprocess.DEVNULL
    child = subprocess.Popen(["sleep", "600"], stdin=null, stdout=null, stderr=null)
    pids = Path(__file__).parent / "helper.txt"
    pids.with_suffix(".new").write_text(f"{os.getpid()} {child.pid}")
    pids.with_suffix(".new").rename(pids)
    time.sleep(600)


def waits_for_the_helper(_: Any) -> str:
    while not (Path(__file__).parent / "helper.txt").exists():
        time.sleep(0.05)
    return "helped"
