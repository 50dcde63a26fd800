"""What a run of validate tells its page of Data Docs, besides the numbers of findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class CheckFacts:
    """The findings of one check.

    Attributes:
        findings: their number.
        persistence_ids: how many persistence ids they are of; 0 if they concern none.
        examples: the first of them by key; each has time_bucket (epoch ms), persistence_id, tag,
            number, expected and detail.
        subject: what `tag` names in them, such as a topic.
    """

    findings: int
    persistence_ids: int
    examples: Sequence[Mapping[str, Any]]
    subject: str = "tag"


@dataclass(frozen=True)
class SettledFacts:
    """The findings that operators have settled, which block nothing.

    Attributes:
        findings: their number.
        examples: the first of them by key; as in `CheckFacts`, with check_name and its subject, and
            with the reason and the owner of the run that settled it.
    """

    findings: int
    examples: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Way:
    """A way to put findings right.

    Attributes:
        purpose: what is to be done, as a clause.
        command: the command line that does it, or that states that the findings stay.
        check: the check whose findings the command settles; empty if it puts some right.
    """

    purpose: str
    command: str
    check: str = ""

    def __str__(self) -> str:
        """Return it for a line of text."""
        return f"{self.purpose}{', or give it up' if self.check else ''}: `{self.command}`"


@dataclass(frozen=True)
class ValidationFacts:
    """What a run looked at and found.

    Attributes:
        run_id: of the run.
        first: the first time bucket that was looked at, ISO 8601.
        last: the last one.
        bucket_size: of the tag views.
        looked_at: what was read, in words.
        events: how many events of the time buckets were checked.
        tag_rows: how many rows of the tag views.
        checks: the checks with findings, by name.
        ways: what puts it right, what helps most first.
        findings_table: `keyspace.table` that holds every finding.
        settled: the findings that are settled; None if none is.
        layers: the layers that were looked at beside messages and the tag views.
    """

    run_id: str
    first: str
    last: str
    bucket_size: str
    looked_at: str
    events: int
    tag_rows: int
    checks: Mapping[str, CheckFacts] = field(default_factory=dict)
    ways: Sequence[Way] = ()
    findings_table: str = ""
    settled: SettledFacts | None = None
    layers: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it as the result of the run keeps it."""
        return asdict(self)
