"""Mutation testing of the pure rooms: `python -m tests.mutants [ROOM ...]`, `make mutants`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from embedded.paths import JARS
from tests.mutants.room import SEED
from tests.mutants.table import ROOT, Place, reasons, rooms

LEAST_KILLED = 0.85
LEFT_OUT = (
    *(".git", ".venv", ".tidemark", "__pycache__", ".hypothesis", "*.egg-info"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache"),
)


def main(chosen: list[str]) -> int:
    """Judge the mutants of rooms, print what survives; return 1 if a room is below the share."""
    names = chosen or list(rooms())
    if unknown := set(names) - set(rooms()):
        print(f"no room {', '.join(sorted(unknown))}; rooms are {', '.join(rooms())}")
        return 2
    counts = {name: _counts(name) for name in names}
    print(f"\n{'room':16}{'mutants':>8}{'killed':>8}{'timeout':>8}{'survived':>9}{'share':>7}")
    is_low = False
    for name, count in counts.items():
        share = _share(count)
        is_low |= share < LEAST_KILLED
        print(
            f"{name:16}{count.total():8}{count['killed']:8}{count['timeout']:8}"
            f"{count['survived']:9}{share:7.3f}{'  too low' if share < LEAST_KILLED else ''}"
        )
    return int(is_low)


def _share(count: Counter[str]) -> float:
    """Return the share of the mutants that are noticed: by a failure, or as their tests hang."""
    return 1 - count["survived"] / count.total()


def _counts(room: str) -> Counter[str]:
    noted, counts = reasons(), Counter[str]()
    for said in _results(room):
        if "mutants" in said:
            sample = next(one.sample for one in rooms()[room] if one.path == said["module"])
            how = f", a sample by the seed {SEED}" if sample else ""
            print(f"{room}: {said['module']}: {said['mutants']} mutants{how}", flush=True)
            continue
        counts[said["outcome"]] += 1
        if said["outcome"] != "killed":
            place = Place(said["module"], said["in"], said["before"], said["after"])
            print(f"  {said['outcome']} in {place.definition or place.module}:")
            print(f"    - {place.before}\n    + {place.after}")
            if said["outcome"] == "survived":
                print(f"    {noted.get(place, 'NO REASON IS NOTED')}", flush=True)
    return counts


def _results(room: str) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="tidemark-mutants-") as directory:
        copy = Path(directory) / "tree"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        # Spark's jars are fetched once, also if a copy is the first that needs them.
        JARS.mkdir(parents=True, exist_ok=True)
        (copy / ".tidemark").mkdir()
        (copy / ".tidemark" / "jars").symlink_to(JARS)
        command = [sys.executable, "-m", "tests.mutants.room", room]
        with subprocess.Popen(command, cwd=copy, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                yield json.loads(line)
        if process.returncode:
            print((copy / "mutants.log").read_text()[-5000:], file=sys.stderr)
            raise SystemExit(f"the mutants of {room} could not be judged")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
