"""Delete events, snapshots and tag views of persistence ids, as Pekko's Cleanup does."""

from __future__ import annotations

from tidemark.application import cli
from tidemark.reconcile.cleanup.commands import COMMANDS, EXAMPLES
from tidemark.reconcile.cleanup.operation import APPLICATION


def start() -> None:
    """Run the command line of this process."""
    cli.group(
        APPLICATION,
        COMMANDS,
        examples=EXAMPLES,
        text="Delete events, snapshots and tag views of persistence ids, as Pekko's Cleanup"
        " does.\n\nEvery command shows its plan and does nothing without --apply. Settings are"
        " TIDEMARK_* environment variables, see docs/settings.md.",
    )
