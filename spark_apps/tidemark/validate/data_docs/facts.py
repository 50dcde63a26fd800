"""The facts that the page of a run in Data Docs shows, besides the numbers of findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class CheckFacts:
    """The findings of one check.

    Attributes:
        findings: the number of findings.
        persistence_ids: the number of persistence ids with findings; 0 if they concern none.
        examples: the first findings by key; each has time_bucket (epoch ms), persistence_id, tag,
            number, expected and detail.
        subject: the kind of thing that `tag` names, such as a topic.
    """

    findings: int
    persistence_ids: int
    examples: Sequence[Mapping[str, Any]]
    subject: str = "tag"


@dataclass(frozen=True)
class SettledFacts:
    """The findings that operators have settled, which block nothing.

    Attributes:
        findings: the number of findings.
        examples: the first findings by key, as in `CheckFacts`, also with check_name, subject, and
            the reason and owner of the settlement.
    """

    findings: int
    examples: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Way:
    """A way to deal with findings.

    Attributes:
        purpose: the thing to do, as a clause.
        command: the command line that does it, or that settles the findings.
        check: the check whose findings the command settles; empty if it repairs findings.
    """

    purpose: str
    command: str
    check: str = ""

    def __str__(self) -> str:
        """Return the text for a line of a report."""
        return f"{self.purpose}{', or give it up' if self.check else ''}: `{self.command}`"


@dataclass(frozen=True)
class ValidationFacts:
    """The scope of a run and its findings.

    Attributes:
        run_id: of the run.
        first: the first time bucket that was checked, ISO 8601.
        last: the last time bucket that was checked.
        bucket_size: of the tag views.
        looked_at: the part of the journal that was read, in words.
        events: the number of events checked.
        tag_rows: the number of rows of tag views checked.
        checks: the checks with findings, by name.
        ways: ways to deal with the findings, the most effective first.
        findings_table: `keyspace.table` that holds every finding.
        settled: the settled findings; None if there are none.
        layers: the layers checked besides messages and the tag views.
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
        """Return the facts as the result file of the run stores them."""
        return asdict(self)
