"""The keys and values that the file of the policies may have.

`include/schemas/retention.schema.json` is generated from these models, for editors.
"""

from __future__ import annotations

import difflib
from datetime import date
from typing import Annotated, Any, Literal, Self, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from tidemark.project.definition.header import EntityType
from tidemark.user_files.form import DIFFERENT, HeaderModel, Text, Texts, refusal

Days = Annotated[int, Field(ge=1, le=36_500)]
_REMOVED = {
    "table-ttl": "remove the policy; a database administrator can set default_time_to_live by"
    " ALTER TABLE, see docs/retention.md",
    "runs": "remove the policy; reports expire by themselves, after TIDEMARK_KEEP_REPORTS_DAYS",
    "quarantined-groups": "remove the policy; they expire by themselves, after"
    " TIDEMARK_KEEP_REPORTS_DAYS",
}
"""What to do about a target that earlier versions had."""


def _require_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise refusal("write a name of the IANA database, such as `Europe/Berlin`") from None
    return name


Zone = Annotated[Text, AfterValidator(_require_zone)]


class PolicyForm(HeaderModel):
    """The keys that all policies have."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,47}$")] = Field(
        description="unique in the file; --policy, reports and the ledger have it",
        examples=["old-tag-views"],
    )


class TagViews(PolicyForm):
    """Tag views are deleted by time bucket, when the retention of each tag in it has passed."""

    target: Literal["tag-views"]
    keep_days: Days | SkipJsonSchema[None] = Field(
        None, description="days after the end of a time bucket; without it TIDEMARK_RETENTION_DAYS"
    )
    tags: Texts = Field((), description="these tags; without it all that no other policy names")


class DeletedEvents(PolicyForm):
    """Events at or below `deleted_to` that are still in messages, deleted logically only."""

    target: Literal["deleted-events"]
    entity_types: Annotated[tuple[EntityType, ...], *DIFFERENT] = Field(
        (), description="persistence ids of these entity types: up to the first |"
    )


class Snapshots(PolicyForm):
    """Snapshots beyond the newest ones of each persistence id, if they are old enough."""

    target: Literal["snapshots"]
    keep: Annotated[int, Field(ge=1, le=2**31 - 1)] = Field(
        description="newest snapshots that each persistence id keeps", examples=[2]
    )
    keep_after: date | SkipJsonSchema[None] = Field(
        None, description="snapshots since this day, UTC, are kept too", examples=["2024-01-31"]
    )
    keep_days: Days | SkipJsonSchema[None] = Field(
        None, description="snapshots of the last days are kept too; in place of keep-after"
    )
    events: bool = Field(
        False, description="also delete the events up to the oldest snapshot that is kept"
    )
    entity_types: Annotated[tuple[EntityType, ...], *DIFFERENT] = Field(
        (), description="persistence ids of these entity types: up to the first |"
    )

    @model_validator(mode="after")
    def _require_one_age(self) -> Self:
        if self.keep_after is not None and self.keep_days is not None:
            raise refusal(
                "keep one of them", "keep-after and keep-days contradict each other", "keep-days"
            )
        return self


class KafkaJournalExpiry(PolicyForm):
    """Journals of kafka-journal that have expired by their `expire_on`."""

    target: Literal["kafka-journal-expiry"]
    zone: Zone | SkipJsonSchema[None] = Field(
        None,
        description="time zone in which a day ends; only that of TIDEMARK_KAFKA_JOURNAL_ZONE, which"
        " is the default",
        examples=["UTC"],
    )
    topics: Texts = Field((), description="journals of these topics; without it all")


class IcebergSnapshots(PolicyForm):
    """Old snapshots of the Iceberg tables of projections, and old files of killed runs."""

    target: Literal["iceberg-snapshots"]
    keep_days: Days = Field(
        description="days in which readers find a snapshot; the current snapshot always stays",
        examples=[7],
    )


class OwnTable(PolicyForm):
    """Old rows of Tidemark's own tables that nothing reads any more."""

    target: Literal[
        "ledger",
        "findings",
        "quarantine",
        "tails",
        "offsets",
        "skipped",
        "offset-ranges",
        "event-groups",
    ]
    keep_days: Days = Field(description="days that rows stay", examples=[90])


Policy = TagViews | DeletedEvents | Snapshots | KafkaJournalExpiry | IcebergSnapshots | OwnTable


def _require_known_target(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    targets = [
        target
        for form in get_args(Policy)
        for target in get_args(form.model_fields["target"].annotation)
    ]
    target = value.get("target")
    if target in targets:
        return value
    if target in _REMOVED:
        raise refusal(_REMOVED[target], f"the target {target} no longer exists", "target")
    near = difflib.get_close_matches(str(target), targets, 1)
    do = f"write {near[0]}" if near else f"known are {', '.join(targets)}"
    what = f"unknown target {target}" if target else "the target is missing"
    raise refusal(do, what, "target")


class Policies(HeaderModel):
    """What purge may delete, policy by policy."""

    policies: tuple[
        Annotated[Policy, Discriminator("target"), BeforeValidator(_require_known_target)], ...
    ] = Field(description="each is planned and reported by itself, in this order")
