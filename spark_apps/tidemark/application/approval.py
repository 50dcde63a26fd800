"""The approval of a plan: its hash and its moment, which a person copies from the plan's report."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from tidemark.errors import InvalidInput
from tidemark.window import iso

OPTION = "--approved"
_APPROVAL = re.compile(r"([0-9a-f]{64})@(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")


@dataclass(frozen=True)
class Approval:
    """The approval of everything that a plan does; any change of the plan changes the hash."""

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
                where=OPTION,
                do="copy it from the report of the plan, `digest@time`",
            )
        return cls(match[1], datetime.fromisoformat(match[2]))

    def __str__(self) -> str:
        """Return the text that `parse` takes."""
        return f"{self.digest}@{iso(self.moment)}"


def digest(keys: Iterable[object]) -> str:
    """Return a hash over the `repr` of each key, in order."""
    hashed = hashlib.sha256()
    for key in keys:
        hashed.update(f"{key!r}\n".encode())
    return hashed.hexdigest()
