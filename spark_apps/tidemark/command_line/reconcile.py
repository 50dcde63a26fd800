"""List, check, repair, delete, rebuild, truncate and re-bucket the tag views."""

from __future__ import annotations

from tidemark.application import cli
from tidemark.reconcile.commands import COMMANDS, EXAMPLES
from tidemark.reconcile.operation import APPLICATION


def start() -> None:
    """Run the command line of this process."""
    cli.group(
        APPLICATION,
        COMMANDS,
        examples=EXAMPLES,
        text="List, check, repair, delete, rebuild and re-bucket the tag views of a journal.\n\n"
        "Every command that changes something shows its plan and does nothing without --apply."
        " Settings are TIDEMARK_* environment variables, see docs/settings.md.",
    )
