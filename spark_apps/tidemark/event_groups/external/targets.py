"""Which targets of hooks the settings allow."""

from __future__ import annotations

from tidemark.event_groups.definition.model import Hook
from tidemark.event_groups.external import http
from tidemark.settings import Settings


def refusal(settings: Settings, hook: Hook) -> tuple[str, str]:
    """Return why the settings do not allow the target of a hook, and what to do.

    Both texts are empty if the target is allowed. Names of functions, and groups that a hook
    submits, are not checked here.
    """
    if hook.http is not None:
        why = http.refusal(hook.http, settings.event_group_host_names)
        return why, "name its host in TIDEMARK_EVENT_GROUP_HOSTS" if why else ""
    if hook.dag is not None and hook.dag not in settings.event_group_dag_ids:
        return _not_in("DAGS", f"DAG {hook.dag}")
    if hook.asset is not None and as_stored(hook.asset) not in {
        as_stored(uri) for uri in settings.event_group_asset_uris
    }:
        return _not_in("ASSETS", f"asset {hook.asset}")
    return ("", "") if hook.kafka is None else of_topic(settings, hook.kafka)


def of_topic(settings: Settings, topic: str) -> tuple[str, str]:
    """Return why the settings do not allow a topic, and what to do; empty texts if they do."""
    if topic in settings.event_group_topic_names:
        return "", ""
    return _not_in("TOPICS", f"topic {topic}")


def as_stored(uri: str) -> str:
    """Return the URI of an asset without the `/` that Airflow appends to `scheme://name`."""
    return uri.rstrip("/")


def _not_in(setting: str, target: str) -> tuple[str, str]:
    do = f"add the name to TIDEMARK_EVENT_GROUP_{setting}, or correct it"
    return f"the {target} is not allowed", do
