"""The settings of event groups, a part of `tidemark.settings`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, SecretStr, field_validator

from tidemark.kafka_settings import KafkaSettings

_ENTRY = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._:-]*)(?:\s*==\s*(\d[\w.!+-]*)((?:\s+--hash=sha256:[0-9a-f]{64})*))?"
)
_INCLUDE = Path(__file__).resolve().parents[2] / "include"


@dataclass(frozen=True)
class Pin:
    """What is allowed of a library or JAR.

    Attributes:
        version: the only version; empty: any.
        hashes: SHA-256 of the files that may be loaded for it; empty: any file.
    """

    version: str
    hashes: frozenset[str]


Pins = Mapping[str, Sequence[Pin]]
"""What is allowed, by the names of libraries or JARs; several versions of one may be."""


class EventGroupSettings(KafkaSettings):
    """What is set of event groups: what they may call, and where it is."""

    event_group_functions_dir: Path = Field(
        _INCLUDE / "event_groups",
        description="The Python modules whose functions event groups may call.",
    )
    event_group_hosts: str = Field(
        "",
        description="Hosts that event groups may ask and tell by HTTP, `host,host:port`; empty:"
        " none.",
    )
    event_group_libraries: str = Field(
        "",
        description="Python libraries that event groups may load: `name`, `name==version`, or"
        " `name==version --hash=sha256:...` with a hash for each wheel that is loaded, separated by"
        " commas; empty: none.",
    )
    event_group_wheels_dir: Path | None = Field(
        None,
        description="Directory of the wheels of these, and of what they need; empty: the package"
        " index that pip is set up for.",
    )
    event_group_jars: str = Field(
        "",
        description="JARs whose functions event groups may load for Spark: `group:artifact`,"
        " `group:artifact==version`, or `group:artifact==version --hash=sha256:...` with a hash for"
        " each JAR that is loaded, separated by commas; empty: none.",
    )
    event_group_jar_repositories: str = Field(
        "",
        description="Maven repositories of these, and of what they need, by URL or directory,"
        " separated by commas; empty: Maven Central.",
    )
    event_group_library_dir: Path = Field(
        _INCLUDE.parent / ".tidemark" / "libraries",
        description="Where libraries are kept that were loaded.",
    )
    airflow_url: str = Field(
        "",
        description="Airflow's address, such as `https://airflow.example.com`, for hooks of event"
        " groups that start DAGs or create asset events.",
    )
    airflow_username: str = Field("", description="User name there.")
    airflow_password: SecretStr = Field(SecretStr(""), description="Password of that user.")

    @property
    def event_group_host_names(self) -> frozenset[str]:
        """Return the hosts that may be asked."""
        return frozenset(_listed(self.event_group_hosts))

    @property
    def event_group_jar_pins(self) -> Pins:
        """Return the JARs that may be loaded, by `group:artifact`."""
        return _pins(self.event_group_jars)

    @property
    def event_group_jar_repository_urls(self) -> list[str]:
        """Return the Maven repositories; none if it is Maven Central."""
        places = _listed(self.event_group_jar_repositories)
        return [one if "://" in one else Path(one).resolve().as_uri() for one in places]

    @property
    def event_group_library_pins(self) -> Pins:
        """Return the libraries that may be loaded, by the names that package indexes compare."""
        return _pins(self.event_group_libraries, canonical)

    @field_validator("event_group_libraries", "event_group_jars")
    @classmethod
    def _require_pins(cls, text: str) -> str:
        for entry in _listed(text):
            if not _ENTRY.fullmatch(entry):
                raise ValueError(
                    f"`{entry}` is none of `name`, `name==version`,"
                    " `name==version --hash=sha256:<64 digits>`"
                )
        return text


def canonical(name: str) -> str:
    """Return the name of a library as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _pins(text: str, key: Callable[[str], str] = str) -> Pins:
    pins = dict[str, list[Pin]]()
    for matched in filter(None, map(_ENTRY.fullmatch, _listed(text))):
        name, version, hashes = matched.groups("")
        sums = frozenset(part.partition("sha256:")[2] for part in hashes.split())
        pins.setdefault(key(name), []).append(Pin(version, sums))
    return pins


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
