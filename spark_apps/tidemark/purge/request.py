"""The request of a purge, and the combinations of options that contradict each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tidemark.errors import InvalidInput
from tidemark.purge.approval import Approval, ApprovedPlan, SavedPurge
from tidemark.purge.saved.places import directory_of
from tidemark.settings import Settings
from tidemark.window import Window


@dataclass(frozen=True)
class PurgeRequest:
    """A request to purge.

    Attributes:
        choice: which policies, and the options of the plan.
        apply: delete; otherwise only the plan is shown. Both leave an audit row.
        explain: also show where each value of the policies comes from.
        approved: the only plan that may be applied; None for any.
        saved: the file with that plan, if there is one.
        save: the file to write the plan to.
        save_to: the directory in which rows are saved before they are deleted; None for no copy.
    """

    choice: ApprovedPlan = field(default_factory=ApprovedPlan)
    apply: bool = False
    explain: bool = False
    approved: Approval | None = None
    saved: SavedPurge | None = None
    save: Path | None = None
    save_to: str | None = None

    @property
    def window(self) -> Window | None:
        """Complete time buckets in the past; None for all that is past its retention."""
        choice = self.choice
        if not choice.window_start and not choice.window_end:
            return None
        return Window.parse(choice.window_start, choice.window_end)


def request_of(
    choice: ApprovedPlan,
    *,
    apply: bool,
    explain: bool,
    save: Path | None,
    save_to: str | None = None,
    saved: SavedPurge | None,
    approved: Approval | None,
    settings: Settings,
) -> PurgeRequest:
    """Return the request of a command line.

    Raises:
        InvalidInput: options contradict each other; the saved plan is for another journal; or the
            directory is not below TIDEMARK_SAVE_DIRS.
    """
    for option, is_given in (("--save", save is not None), ("--explain", explain)):
        if apply and is_given:
            raise _contradiction(f"{option} only plans", option, "leave out --apply")
    directory = None
    if save_to is not None:
        directory = directory_of(save_to, settings, "--save-to")
    elif settings.purge_save_to:
        directory = directory_of(settings.purge_save_to, settings, "TIDEMARK_PURGE_SAVE_TO")
    if approved is not None and not apply:
        do = "add --apply, or leave it out"
        raise _contradiction("an approval is for a purge that is applied", "--approved", do)
    if saved is None:
        return PurgeRequest(choice, apply, explain, approved, None, save, directory)
    if not apply or approved is not None:
        do = "add --apply, and no --approved"
        raise _contradiction("a saved plan is its own approval, to be applied", "--plan", do)
    if choice != ApprovedPlan():
        do = "leave the others out"
        raise _contradiction("a saved plan has the options that it was made with", "--plan", do)
    if settings.journal_keyspace != saved.journal_keyspace:
        raise InvalidInput(
            f"the plan is for the journal {saved.journal_keyspace},"
            f" not {settings.journal_keyspace}",
            where="TIDEMARK_JOURNAL_KEYSPACE",
            do="set it, or make a new plan",
        )
    approval = Approval.parse(saved.approval)
    return PurgeRequest(saved.choice, apply, False, approval, saved, save_to=directory)


def _contradiction(what: str, option: str, do: str) -> InvalidInput:
    return InvalidInput(what, where=option, do=do)
