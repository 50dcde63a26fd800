"""The approval of a plan (its hash and its moment), and the file that a plan is saved in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from tidemark.application import saved_file
from tidemark.errors import InvalidInput
from tidemark.purge.target import TargetPlan, digest
from tidemark.window import iso

FORMAT = 1
MADE_BY = "purge.py --save FILE"
_APPROVAL = re.compile(r"([0-9a-f]{64})@(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")


@dataclass(frozen=True)
class Approval:
    """The approval of everything that a plan deletes, as of the plan's moment.

    An approved plan is planned again as of its moment, so that it does not grow while somebody
    decides; any other change of the plan changes the hash.
    """

    digest: str
    moment: datetime

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `digest@time`, as a plan shows it.

        Raises:
            InvalidInput: the text is something else.
        """
        match = _APPROVAL.fullmatch(text)
        if match is None:
            raise InvalidInput(
                f"not the approval of a plan: {text!r:.100}",
                where="--approved",
                do="copy it from the report of the plan, `digest@time`",
            )
        return cls(match[1], datetime.fromisoformat(match[2]))

    def __str__(self) -> str:
        """Return the text that `parse` takes."""
        return f"{self.digest}@{iso(self.moment)}"


@dataclass(frozen=True)
class ApprovedPlan:
    """The options that a purge was planned with; a saved plan keeps them.

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
class SavedPurge:
    """A plan of purge in a file.

    Attributes:
        journal_keyspace: the journal that it is for.
        approval: the hash of the plan, and its moment.
        choice: the options that it was planned with.
        digests: the hash of each policy's part, by policy name.
    """

    journal_keyspace: str
    approval: str
    choice: ApprovedPlan
    digests: Mapping[str, str]

    @classmethod
    def load(cls, file: Path) -> SavedPurge:
        """Read a file that `save` wrote.

        Raises:
            InvalidInput: the file cannot be read, or is no plan of purge.
        """
        return saved_file.load(file, FORMAT, cls._read, MADE_BY)

    @classmethod
    def _read(cls, content: dict[str, Any]) -> SavedPurge:
        saved = cls(**{**content, "choice": _choice(content["choice"])})
        Approval.parse(saved.approval)
        return saved

    def save(self, file: Path) -> None:
        """Write the plan as JSON.

        Raises:
            InvalidInput: the file cannot be written.
        """
        saved_file.save(file, FORMAT, asdict(self))


def _choice(content: Mapping[str, Any]) -> ApprovedPlan:
    lists = {name: tuple(content[name]) for name in ("policies", "give_up")}
    return ApprovedPlan(**{**content, **lists})


def digests(plans: Mapping[str, TargetPlan]) -> dict[str, str]:
    """Return the hash of each policy's plan, by policy name."""
    return {name: plan.digest for name, plan in plans.items()}


def approval_of(
    journal_keyspace: str,
    moment: datetime,
    plans: Mapping[str, TargetPlan],
    given_up: Sequence[str],
) -> Approval:
    """Return the approval of these plans."""
    parts = [journal_keyspace, *sorted(given_up), *digests(plans).items()]
    return Approval(digest(parts), moment)
