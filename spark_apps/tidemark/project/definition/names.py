"""Prints the names of all projections, for callers that start a run for each.

`python -m tidemark.project.definition.names` prints a line of JSON, a sorted list. `--of-topics`
prints only projections that read a topic of kafka-journal. The list includes definitions that
cannot be used, because their runs fail with the reason. It omits rollups, because the run of the
projection that a rollup reads also updates the rollup.
"""

from __future__ import annotations

import json
import sys

from tidemark.errors import TidemarkError
from tidemark.project.definition.catalog import read_all
from tidemark.project.definition.source import KafkaJournal
from tidemark.settings import Settings
from tidemark.text import harmless


def main() -> int:
    """Print the names and return the exit status."""
    try:
        catalog = read_all(Settings.load().projections_dir)
    except TidemarkError as error:
        print(f"names: error: {harmless(str(error))}", file=sys.stderr)
        return error.exit_status
    of_topics = "--of-topics" in sys.argv
    names = {
        definition.name
        for definition in catalog.definitions
        if not of_topics or isinstance(definition.source, KafkaJournal)
    }
    names |= {broken.name for broken in catalog.unusable}
    print(json.dumps(sorted(names)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
