"""The settings of event groups, a part of `tidemark.settings`."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import Field, SecretStr

from tidemark.kafka_settings import KafkaSettings

_INCLUDE = Path(__file__).resolve().parents[2] / "include"


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
        description="Python libraries that event groups may load, `name,name`; empty: none.",
    )
    event_group_wheels_dir: Path | None = Field(
        None,
        description="Directory of the wheels of these, and of what they need; empty: the package"
        " index that pip is set up for.",
    )
    event_group_jars: str = Field(
        "",
        description="JARs whose functions event groups may load for Spark,"
        " `group:artifact,group:artifact`; empty: none.",
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
    def event_group_jar_coordinates(self) -> frozenset[str]:
        """Return the JARs that may be loaded, `group:artifact`."""
        return frozenset(_listed(self.event_group_jars))

    @property
    def event_group_jar_repository_urls(self) -> list[str]:
        """Return the Maven repositories; none if it is Maven Central."""
        places = _listed(self.event_group_jar_repositories)
        return [one if "://" in one else Path(one).resolve().as_uri() for one in places]

    @property
    def event_group_library_names(self) -> frozenset[str]:
        """Return the libraries that may be loaded, as package indexes compare names."""
        return frozenset(map(canonical, _listed(self.event_group_libraries)))


def canonical(name: str) -> str:
    """Return the name of a library as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
