"""The effective value of each key of a policy, and its source.

In order of precedence: the form or the command line, the file of the policies,
TIDEMARK_RETENTION_DAYS, the default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.errors import InvalidInput
from tidemark.purge.policies.file import PolicyFile
from tidemark.purge.policies.model import Policy, TagViews
from tidemark.settings import Settings

BY_DEFAULT = "by default"
OPTION = "--retention-days"
SETTING = "TIDEMARK_RETENTION_DAYS"


@dataclass(frozen=True)
class Effective:
    """A policy with its effective values.

    Attributes:
        policy: the policy with these values.
        place: where it is written, `file:line`.
        sources: where each value comes from, by key.
        is_chosen: whether the run is for it.
    """

    policy: Policy
    place: str
    is_chosen: bool
    sources: Mapping[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return the policy for people: its own line, and one for each value and its source."""
        lines = [f"{self.policy.name}: {self.policy.target}, {self.policy.__doc__} ({self.place})"]
        for name, info in type(self.policy).model_fields.items():
            key = info.alias or name
            value = getattr(self.policy, name)
            if key in ("name", "target") or (value is None and self.sources[key] == BY_DEFAULT):
                continue
            lines.append(f"  {key}: {_shown(value)}, {self.sources[key]}")
        return lines


def effective(
    file: PolicyFile,
    settings: Settings,
    *,
    names: Sequence[str] = (),
    retention_days: int | None = None,
    below_retention: bool = False,
) -> list[Effective]:
    """Return all policies in the order of the file, with their effective values.

    The policies of `names` are chosen, all if empty. `retention_days` are the days of the form or
    the command line for tag views; with `below_retention` they may be fewer than the setting's.

    Raises:
        InvalidInput: no policy has one of the names; there are days for tag views, and no policy
            for them; or tag views would be kept shorter than the setting.
    """
    for name in names:
        if name not in file.names:
            raise InvalidInput(
                f"there is no policy {name}",
                where="--policy",
                do=f"{file.header.file} has {', '.join(file.names) or 'none'}",
            )
    chosen = [policy for policy in file.policies if not names or policy.name in names]
    if retention_days is not None and not any(isinstance(policy, TagViews) for policy in chosen):
        raise InvalidInput(
            "days for tag views, and no policy for them",
            where=OPTION,
            do=f"add a policy of the target tag-views to {file.header.file}, or choose it",
        )
    effectives = []
    for policy in file.policies:
        is_chosen = policy in chosen
        sources = {
            (info.alias or name): f"from {file.place(policy, info.alias or name)}"
            if name in policy.model_fields_set
            else BY_DEFAULT
            for name, info in type(policy).model_fields.items()
        }
        if isinstance(policy, TagViews):
            given = retention_days if is_chosen else None
            days, source = _days(policy, settings, sources["keep-days"], given)
            if is_chosen:
                _require_floor(days, source, settings, below_retention=below_retention)
            policy = policy.model_copy(update={"keep_days": days})
            sources["keep-days"] = source
        effectives.append(Effective(policy, file.place(policy), is_chosen, sources))
    return effectives


def _days(
    policy: TagViews, settings: Settings, file_source: str, retention_days: int | None
) -> tuple[int, str]:
    if retention_days is not None:
        return retention_days, f"from {OPTION}"
    if policy.keep_days is not None:
        return policy.keep_days, file_source
    is_set = "retention_days" in settings.model_fields_set
    return settings.retention_days, f"from {SETTING}" if is_set else BY_DEFAULT


def _require_floor(days: int, source: str, settings: Settings, *, below_retention: bool) -> None:
    if days < settings.retention_days and not below_retention:
        raise InvalidInput(
            f"{days} days are less than the {settings.retention_days} of {SETTING}",
            where=source.removeprefix("from "),
            do="keep that long; or say with --below-retention that it is meant so",
        )


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) if value else "all"
    return str(value).lower() if isinstance(value, bool) else str(value) or "all"
