"""Prints the stored report of a run, for callers on another machine than its driver.

`python -m tidemark.application.report RUN_ID` prints a line of JSON, or nothing without a report.
"""

from __future__ import annotations

import json
import sys

from tidemark.cassandra.control import Control
from tidemark.errors import TidemarkError
from tidemark.ledger.runs import read_report
from tidemark.settings import Settings
from tidemark.text import harmless


def main(run_id: str) -> int:
    """Print the report and return the exit status."""
    try:
        settings = Settings.load()
        with Control(settings) as control:
            report = read_report(control, settings.keyspace, run_id)
    except TidemarkError as error:
        print(f"report: error: {harmless(str(error))}", file=sys.stderr)
        return error.exit_status
    if report is not None:
        print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
