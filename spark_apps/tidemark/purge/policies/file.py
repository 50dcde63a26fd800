"""The file of the policies, and the contradictions in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidemark.errors import DefinitionError, InvalidInput
from tidemark.installation import place_of_setting
from tidemark.purge.policies.model import (
    IcebergSnapshots,
    KafkaJournalExpiry,
    OwnTable,
    Policies,
    Policy,
    Snapshots,
    TagViews,
)
from tidemark.user_files.header import Header
from tidemark.user_files.yaml_text import read_yaml_file

_EMPTY = ("the file has no policies", "add `policies: []` if nothing may be deleted")


@dataclass(frozen=True)
class PolicyFile:
    """The policies, and where each of their values is written."""

    header: Header
    policies: tuple[Policy, ...]

    @property
    def names(self) -> list[str]:
        """The names of the policies, in their order."""
        return [policy.name for policy in self.policies]

    def place(self, policy: Policy, key: str = "") -> str:
        """Return `file:line` of a policy, or of one of its keys that is in the file."""
        node = self.header.node("policies", self.names.index(policy.name))
        return f"{self.header.file}:{node.keys.get(key, node.place)[0]}"

    def error(self, policy: Policy, what: str, do: str, *path: str | int) -> DefinitionError:
        """Return an error at a value of a policy."""
        return self._at(self.names.index(policy.name), what, do, *path)

    def _at(self, index: int, what: str, do: str, *path: str | int) -> DefinitionError:
        return self.header.error(what, do, "policies", index, *path)

    def require_no_contradiction(self) -> None:
        """Require that no two policies decide about the same data.

        Raises:
            DefinitionError: at the later of the two.
        """
        claims: dict[str, str] = {}
        for index, policy in enumerate(self.policies):
            for claim, path in _claims(policy):
                if claim in claims:
                    what = f"the policy {claims[claim]} has {claim}, too"
                    raise self._at(index, what, "keep one of them", *path)
                claims[claim] = policy.name
            for earlier in self.policies[:index]:
                if overlap := _overlap(policy, earlier):
                    what = f"the policy {earlier.name} is for {overlap}, too"
                    raise self._at(index, what, "keep one of them", "target")


def load(file: Path) -> PolicyFile:
    """Read and check the file.

    Raises:
        InvalidInput: there is no such file.
        DefinitionError: it is not YAML, a policy cannot be used, or two contradict each other; the
            message has file, line, column and remedy.
    """
    if not file.is_file():
        raise InvalidInput(
            "there is no such file",
            where=str(file),
            do=f"set {place_of_setting('TIDEMARK_RETENTION_FILE')} to the file of the policies",
        )
    header = read_yaml_file(file, _EMPTY)
    policies = PolicyFile(header, header.checked(Policies).policies)
    policies.require_no_contradiction()
    return policies


def _claims(policy: Policy) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """Yield, as text, what only one policy may have, and where it is written."""
    yield f"the name {policy.name}", ("name",)
    if isinstance(policy, TagViews):
        for number, tag in enumerate(policy.tags):
            yield f"the tag {tag}", ("tags", number)
        if not policy.tags:
            yield "all tags that no other policy names", ("target",)
    elif isinstance(policy, OwnTable | IcebergSnapshots):
        yield f"the target {policy.target}", ("target",)


def _overlap(policy: Policy, other: Policy) -> str:
    """Return, as text, what two policies both decide about; empty if nothing."""
    if isinstance(policy, Snapshots) and isinstance(other, Snapshots):
        return _common("the entity type", policy.entity_types, other.entity_types)
    if isinstance(policy, KafkaJournalExpiry) and isinstance(other, KafkaJournalExpiry):
        return _common("the topic", policy.topics, other.topics)
    return ""


def _common(noun: str, names: Sequence[str], others: Sequence[str]) -> str:
    """Return a name that is in both; a policy without names is for all of them."""
    if not names and not others:
        return noun.replace("the", "every", 1)
    common = [name for name in names or others if name in (others or names)]
    return f"{noun} {common[0]}" if common else ""
