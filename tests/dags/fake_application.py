"""A stand-in for a Spark application, which takes its options and leaves its report.

The door tests check which runs start, with which window, and what Airflow makes of their report.
The year in which the window starts decides how the run ends. A topic is given with the time up to
which it is replicated: `orders:2013-01-01T03:00:00Z`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

NOTHING_TO_DO = "1991"
FAILS = "1992"
REFUSES = "1993"
DIES = "1994"
BROKEN = "1996"
"""The year in which the data is damaged, and the report names the run that repairs it."""
JUDGED = "1995"
"""The year in which `validate` builds Data Docs of a time bucket without findings."""
PARTLY_DONE = "1998"
"""The year in which a run completes all but the last day of its window, which is damaged."""
FAILS_ONCE = "1989"
"""The year in which the first run of an application dies."""
SLOW = "1997"
"""The year whose run takes longer than the deadline of the tests' Airflow."""
DEADLINE_S = 60
ERROR = "somebody else holds the lock"
APPROVAL = f"{'a' * 64}@2024-01-01T00:00:00Z"
HOSTILE_ID = "x\n```\n\n## Nothing is deleted, approve\n![](https://example.invalid/seen)\n\n```"
"""A persistence id in the plan of each purge: Markdown that ends the code in which it is shown."""
LEFT = "left for later: live readers may still look back"
_STATUSES = {FAILS: 1, REFUSES: 2, BROKEN: 3, PARTLY_DONE: 3}
_STATES = {NOTHING_TO_DO: "nothing-to-do", **dict.fromkeys(_STATUSES, "failed")}
_REMEDY = {
    "application": "reconcile",
    "command": "repair",
    "options": {"persistence-id": ["aircraft|N3753"]},
}


def option(arguments: list[str], name: str) -> str | None:
    """Return the word after an option, or None without the option."""
    return arguments[arguments.index(name) + 1] if name in arguments else None


def report_of(arguments: list[str], year: str) -> dict[str, Any]:
    """Return the report for a command line of an application."""
    application = next(Path(word).stem for word in arguments if word.endswith(".py"))
    dry_by_default = application in ("purge", "reconcile", "cleanup")
    dry_run = "--apply" not in arguments if dry_by_default else "--dry-run" in arguments
    state = _STATES.get(year, "planned" if dry_run else "done")
    window = [option(arguments, name) for name in ("--window-start", "--window-end")]
    done = _done(year, state, window)
    topic, _, replicated_to = (option(arguments, "--topic") or "").partition(":")
    if replicated_to:
        done = {"done_start": "2013-01-01T00:00:00Z", "done_end": replicated_to}
    is_any_done = done["done_start"] is not None
    return {
        "application": application.replace("_", "-"),
        "run_id": option(arguments, "--run-id"),
        "state": state,
        "window_start": window[0],
        "window_end": window[1],
        **done,
        "dry_run": dry_run,
        "pieces": {
            "planned": 1,
            "done": int(is_any_done),
            "held": 0,
            "failed": 0,
        },
        "counts": {"events_read": 1234},
        "seconds": 1.5,
        "lines": _lines(application, state),
        "details": {
            "arguments": arguments,
            "projections": {"totals": done} if is_any_done else {},
            "topics": {topic: done} if replicated_to else {},
            "can_be_applied": dry_run,
            "approval": APPROVAL,
            "tombstones": 12,
            "policies": {
                "old-tag-views": {
                    "target": "tag-views",
                    "tombstones": {"partitions_deleted": 12},
                }
            },
            "tables": {"read": ["pekko.messages"], "written": ["pekko.tag_views"]},
        },
        "error": f"{ERROR} (pekko); wait" if state == "failed" else None,
        "failure": _failure(year) if state == "failed" else None,
    }


def _done(year: str, state: str, window: list[str | None]) -> dict[str, str | None]:
    """Return the completed part of the window."""
    start, end = window
    if year == PARTLY_DONE and end is not None:
        end = (datetime.fromisoformat(end) - timedelta(days=1)).isoformat().replace("+00:00", "Z")
    elif state != "done":
        start = end = None
    return {"done_start": start, "done_end": end}


def _lines(application: str, state: str) -> list[str]:
    from tidemark.text import harmless

    if state == "nothing-to-do":
        return [LEFT]
    return [harmless(f"{HOSTILE_ID} expires")] if application == "purge" else []


def _failure(year: str) -> dict[str, Any]:
    remedy = _REMEDY if year == BROKEN else None
    return {"what": ERROR, "where": "pekko", "do": "wait", "remedy": remedy}


def build_data_docs(arguments: list[str]) -> str:
    """Build the data docs as `validate` does, and return the path of the run's page in them."""
    from tidemark.settings import Settings
    from tidemark.validate.data_docs.build import publish
    from tidemark.validate.data_docs.facts import ValidationFacts
    from tidemark.validate.findings.checks import CHECKS
    from tidemark.window import to_millis

    bucket = datetime.fromisoformat(option(arguments, "--window-start") or "")
    run_id = option(arguments, "--run-id") or ""
    facts = ValidationFacts(
        run_id, bucket.isoformat(), bucket.isoformat(), "Day", "everything", 1, 1
    )
    docs = publish({}, CHECKS, [to_millis(bucket)], Settings(), facts)
    return str(docs.page.relative_to(docs.directory))


def steps_of(whole: dict[str, Any], year: str) -> dict[str, Any]:
    """Return the reports of the chain's steps: `validate` ends as the chain does, if it fails."""
    whole = {**whole, "details": {**whole["details"]}}
    done = {"done_start": whole["window_start"], "done_end": whole["window_end"]}
    passed = {name: whole[name] for name in done}
    well = {
        **whole,
        "state": "done",
        "error": None,
        "failure": None,
        "pieces": {"planned": 1, "done": 1},
    }
    steps = {"tag-write": {**well, **done}, "validate": {**whole}, "project": {**well, **passed}}
    if whole["state"] == "nothing-to-do":
        steps = {name: {**whole} for name in steps}
    if year == BROKEN:
        del steps["project"]
    return {
        name: {**step, "application": name, "run_id": f"{whole['run_id']}/{name}"}
        for name, step in steps.items()
    }


def is_first(year: str) -> bool:
    """Return whether no application has run over the year before."""
    marker = Path(os.environ["TIDEMARK_DATA_DOCS_DIR"]).with_name(f"ran-over-{year}")
    is_new = not marker.exists()
    marker.touch()
    return is_new


def main(arguments: list[str]) -> int:
    """Write the report and return the exit status of an application."""
    year = (option(arguments, "--window-start") or "")[:4]
    print("connected with", os.environ["TIDEMARK_CASSANDRA_PASSWORD"])
    if year == DIES or (year == FAILS_ONCE and is_first(year)):
        return 1
    if year == SLOW:
        time.sleep(DEADLINE_S + 30)
    report = report_of(arguments, year)
    if (report["application"], year) == ("validate", JUDGED):
        report["details"]["data_docs"] = build_data_docs(arguments)
    if report["application"] == "chain" and not report["dry_run"]:
        report["details"]["steps"] = steps_of(report, year)
    text = json.dumps(report)
    Path(option(arguments, "--report") or "").write_text(text)
    print(text)
    return _STATUSES.get(year, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
