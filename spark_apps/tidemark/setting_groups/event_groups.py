"""The settings of event groups, a part of `tidemark.settings`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from pydantic import Field, SecretStr, field_validator

from tidemark.installation import HOME, users_files
from tidemark.setting_groups.kafka import KafkaSettings

_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_JAR = re.compile(r"([A-Za-z0-9][\w.-]*:[A-Za-z0-9][\w.-]*)(?::(\d[\w.-]*))?", re.ASCII)
_FORM_OF_LIBRARY = "`name`, `name==version` or `name==version --hash=sha256:<64 digits>`"
_FORM_OF_JAR = "`group:artifact`, `group:artifact:version` or that with `--hash=sha256:<64 digits>`"


@dataclass(frozen=True)
class Allowed:
    """A library or a JAR that event groups may load: an entry of its setting.

    Attributes:
        name: the normalized name of the library, or `group:artifact` of the JAR.
        version: the only version; empty for any.
        hashes: the SHA-256 of all files that may be fetched for it, in hex; empty for any.
        requirements: the library, if it has a version, and its dependencies, as pip reads them.
    """

    name: str
    version: str
    hashes: frozenset[str]
    requirements: tuple[str, ...] = ()


class EventGroupSettings(KafkaSettings):
    """The settings of event groups: what they may call, and where to find it."""

    event_group_functions_dir: Path = Field(
        users_files("event_groups"),
        description="The Python modules whose functions event groups may call"
        " ([functions](event-groups.md#functions)).",
    )
    event_group_hosts: str = Field(
        "",
        description="Hosts that event groups may send requests to by HTTP, `host,host:port`; empty:"
        " none.",
    )
    event_group_dags: str = Field(
        "",
        description="DAGs that hooks of event groups may start, by their ids, separated by commas;"
        " empty: none.",
    )
    event_group_assets: str = Field(
        "",
        description="Assets of which hooks of event groups may create events, by their URIs,"
        " separated by commas; empty: none.",
    )
    event_group_topics: str = Field(
        "",
        description="Kafka topics to which hooks of event groups may write, separated by commas;"
        " empty: none.",
    )
    event_group_libraries: str = Field(
        "",
        description="Python libraries that event groups may load, separated by commas: `name`,"
        " `name==version`, or `name==version --hash=sha256:...` with what it needs in the same form"
        " ([libraries](event-groups.md#libraries)); empty: none.",
    )
    event_group_wheels_dir: Path | None = Field(
        None,
        description="Directory of the wheels of these, and of what they need; empty: the package"
        " index that pip is set up for, from which libraries are loaded by their hashes only.",
    )
    event_group_jars: str = Field(
        "",
        description="JARs whose functions event groups may load for Spark, separated by commas:"
        " `group:artifact`, `group:artifact:version`, or the latter with `--hash=sha256:...` of"
        " each file ([JARs](event-groups.md#jars-for-spark)); empty: none.",
    )
    event_group_jar_repositories: str = Field(
        "",
        description="Maven repositories of these, and of what they need, by URL or directory,"
        " separated by commas; empty: Maven Central. From a URL, JARs are loaded by their hashes"
        " only.",
    )
    event_group_library_dir: Path = Field(
        HOME / ".tidemark" / "libraries",
        description="Where libraries are kept that were loaded.",
    )
    airflow_url: str = Field(
        "",
        description="Airflow's address, such as `https://airflow.example.com`, for hooks of event"
        " groups that start DAGs or create asset events.",
    )
    airflow_username: str = Field("", description="User name there.")
    airflow_password: SecretStr = Field(SecretStr(""), description="Password of that user.")

    @field_validator("event_group_libraries")
    @classmethod
    def _are_libraries(cls, value: str) -> str:
        _entries(value, _library)
        return value

    @field_validator("event_group_jars")
    @classmethod
    def _are_jars(cls, value: str) -> str:
        _entries(value, _jar)
        return value

    @property
    def event_group_host_names(self) -> frozenset[str]:
        """Return the hosts to which HTTP requests may be sent."""
        return frozenset(_listed(self.event_group_hosts))

    @property
    def event_group_dag_ids(self) -> frozenset[str]:
        """Return the DAGs that hooks may start."""
        return frozenset(_listed(self.event_group_dags))

    @property
    def event_group_asset_uris(self) -> frozenset[str]:
        """Return the assets for which hooks may create events."""
        return frozenset(_listed(self.event_group_assets))

    @property
    def event_group_topic_names(self) -> frozenset[str]:
        """Return the topics to which hooks may write."""
        return frozenset(_listed(self.event_group_topics))

    @property
    def event_group_allowed_jars(self) -> list[Allowed]:
        """Return the JARs that may be loaded."""
        return _entries(self.event_group_jars, _jar)

    @property
    def event_group_jar_repository_urls(self) -> list[str]:
        """Return the Maven repositories; none for Maven Central."""
        repositories = _listed(self.event_group_jar_repositories)
        return [part if "://" in part else Path(part).resolve().as_uri() for part in repositories]

    @property
    def event_group_allowed_libraries(self) -> list[Allowed]:
        """Return the libraries that may be loaded."""
        return _entries(self.event_group_libraries, _library)


def _entries(text: str, parse: Callable[[list[str]], Allowed]) -> list[Allowed]:
    entries = []
    for number, entry in enumerate(_listed(text), 1):
        try:
            entries.append(parse(entry.split()))
        except ValueError as error:
            raise ValueError(f"entry {number} {error}") from None
    return entries


def _library(words: list[str]) -> Allowed:
    lines: list[list[str]] = []
    for word in words:
        if _HASH.fullmatch(word) and lines:
            lines[-1].append(word)
        else:
            lines.append([word])
    libraries = [_name_and_version(line[0]) for line in lines]
    hashes = _hashes(words)
    if (hashes or len(lines) > 1) and not all(version for _, version in libraries):
        raise ValueError("needs a version for each of its libraries: `name==version`")
    if hashes and not all(len(line) > 1 for line in lines):
        raise ValueError("needs a hash for each of its libraries, or none")
    name, version = libraries[0]
    requirements = tuple(" ".join(line) for line in lines) if version else ()
    return Allowed(name, version, hashes, requirements)


def _name_and_version(word: str) -> tuple[str, str]:
    try:
        requirement = Requirement(word)
    except InvalidRequirement:
        raise ValueError(f"is not {_FORM_OF_LIBRARY}") from None
    versions = [(part.operator, part.version) for part in requirement.specifier]
    is_pinned = len(versions) == 1 and versions[0][0] == "==" and "*" not in versions[0][1]
    if (versions and not is_pinned) or requirement.url or requirement.marker:
        raise ValueError(f"is not {_FORM_OF_LIBRARY}")
    return canonicalize_name(requirement.name), versions[0][1] if versions else ""


def _jar(words: list[str]) -> Allowed:
    parts = _JAR.fullmatch(words[0])
    hashes = _hashes(words)
    if parts is None or not all(_HASH.fullmatch(word) for word in words[1:]):
        raise ValueError(f"is not {_FORM_OF_JAR}")
    name, version = parts.groups("")
    if hashes and not version:
        raise ValueError("needs a version with its hash: `group:artifact:version`")
    return Allowed(name, version, hashes)


def _hashes(words: Sequence[str]) -> frozenset[str]:
    return frozenset(match[1] for word in words if (match := _HASH.fullmatch(word)))


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
