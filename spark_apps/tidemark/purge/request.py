"""The request of a purge, and the combinations of options that contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidemark.application.approval import OPTION, Approval
from tidemark.errors import InvalidInput
from tidemark.purge.saved.places import directory_of
from tidemark.settings import Settings
from tidemark.window import Window


@dataclass(frozen=True)
class PurgeOptions:
    """The options of a plan.

    Attributes:
        policies: names of policies; empty for all.
        window_start: ISO 8601; empty without a window.
        window_end: ISO 8601, exclusive.
        retention_days: the days of the command line, or None.
        below_retention: whether they may be fewer than the setting's.
        give_up: projections that are given up.
    """

    policies: Sequence[str] = ()
    window_start: str = ""
    window_end: str = ""
    retention_days: int | None = None
    below_retention: bool = False
    give_up: Sequence[str] = ()


@dataclass(frozen=True)
class PurgeRequest:
    """A request to purge.

    Attributes:
        choice: which policies, and the options of the plan.
        apply: delete; otherwise only the plan is shown. Both leave an audit row.
        explain: also show where each value of the policies comes from.
        approved: the only plan that may be applied; None for any.
        save_to: the directory in which rows are saved before they are deleted; None for no copy.
    """

    choice: PurgeOptions = field(default_factory=PurgeOptions)
    apply: bool = False
    explain: bool = False
    approved: Approval | None = None
    save_to: str | None = None

    @property
    def window(self) -> Window | None:
        """Complete time buckets in the past; None for all that is past its retention."""
        choice = self.choice
        if not choice.window_start and not choice.window_end:
            return None
        return Window.parse(choice.window_start, choice.window_end)


def request_of(
    choice: PurgeOptions,
    *,
    apply: bool,
    explain: bool,
    save_to: str | None = None,
    approved: Approval | None,
    settings: Settings,
) -> PurgeRequest:
    """Return the request of a command line.

    Raises:
        InvalidInput: options contradict each other; or the directory is not below
            TIDEMARK_SAVE_DIRS.
    """
    if apply and explain:
        what = "--explain only plans"
        raise InvalidInput(what, where="--explain", do="leave out --apply")
    directory = None
    if save_to is not None:
        directory = directory_of(save_to, settings, "--save-to")
    elif settings.purge_save_to:
        directory = directory_of(settings.purge_save_to, settings, "TIDEMARK_PURGE_SAVE_TO")
    if approved is not None and not apply:
        what = "an approval is for a purge that is applied"
        raise InvalidInput(what, where=OPTION, do="add --apply, or leave it out")
    return PurgeRequest(choice, apply, explain, approved, directory)
