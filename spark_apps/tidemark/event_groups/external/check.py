"""Checks whether what a group calls outside of Cassandra exists, and is allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

from tidemark.event_groups.definition import model
from tidemark.event_groups.definition.file import Fault, GroupDefinition, Place, hooks_of
from tidemark.event_groups.definition.model import Compensation, Group
from tidemark.event_groups.external import http, targets
from tidemark.event_groups.external.jars import Jars, Loaded, LoadedJar, refuse_clash
from tidemark.event_groups.external.libraries import Libraries, places
from tidemark.event_groups.external.processes import Functions
from tidemark.event_groups.failure import EventFailed
from tidemark.settings import Settings

_IMPORT_S = 30


def check(
    settings: Settings, definition: GroupDefinition, fault: Fault, loaded: Sequence[Loaded]
) -> list[Loaded]:
    """Check the functions, libraries, addresses and targets of hooks of a group.

    `loaded` are the libraries that its stream has loaded.

    Returns:
        the libraries that are loaded after it.

    Raises:
        DefinitionError: a function is not defined, a library cannot be loaded, or an address or
            the target of a hook is not allowed.
    """
    libraries = {library.name: library for library in loaded}
    for number, event in enumerate(definition.group.events):
        if event.library is not None:
            fetched = _fetch(
                settings, event.library, libraries, fault, ("events", number, "library")
            )
            libraries[fetched.name] = fetched

    with closing(Functions(lambda: places(settings, libraries.values()))) as functions:
        for name, path in _calls(definition.group):
            try:
                functions.require(name, _IMPORT_S)
            except EventFailed as error:
                where = settings.event_group_functions_dir
                do = f"define it with `def` in a module in {where}, or correct the name"
                raise fault(str(error), do, *path) from None
    _check_targets(settings, definition.group, fault)
    return list(libraries.values())


def _check_targets(settings: Settings, group: Group, fault: Fault) -> None:
    for url, path in _urls(group):
        if why := http.refusal(url, settings.event_group_host_names):
            raise fault(why, "name its host in TIDEMARK_EVENT_GROUP_HOSTS", *path)
    refused = [(targets.of_topic(settings, topic), path) for topic, path in _topics(group)]
    refused += [
        (targets.refusal(settings, hook), (*path, hook.target)) for _, hook, path in hooks_of(group)
    ]
    for (why, do), path in refused:
        if why:
            raise fault(why, do, *path)


def _fetch(
    settings: Settings,
    library: model.Library | model.JarLibrary,
    libraries: Mapping[str, Loaded],
    fault: Fault,
    at: Place,
) -> Loaded:
    setting = "TIDEMARK_EVENT_GROUP_LIBRARIES"
    try:
        if isinstance(library, model.JarLibrary):
            setting = "TIDEMARK_EVENT_GROUP_JARS"
            refuse_clash((jar for jar in libraries.values() if isinstance(jar, LoadedJar)), library)
            return Jars(settings).fetch(library)
        return Libraries(settings).fetch(library.name, library.version)
    except EventFailed as error:
        raise fault(
            str(error), f"allow it in {setting}, see docs/event-groups.md, or correct it", *at
        ) from None


def _calls(group: Group) -> Iterator[tuple[str, Place]]:
    for index, event in enumerate(group.events):
        at: Place = ("events", index)
        for number, need in enumerate(event.needs):
            if need.call is not None:
                yield need.call, (*at, "needs", number, "call")
        if isinstance(event.rollback, Compensation) and event.rollback.call is not None:
            yield event.rollback.call, (*at, "rollback", "call")
    for _, hook, at in hooks_of(group):
        if hook.call is not None:
            yield hook.call, (*at, "call")
    for number, helper in enumerate(group.hooks.helpers):
        yield helper, ("hooks", "helpers", number)


def _urls(group: Group) -> Iterator[tuple[str, Place]]:
    for index, event in enumerate(group.events):
        for number, need in enumerate(event.needs):
            if need.url is not None:
                yield need.url, ("events", index, "needs", number, "url")
        if event.asked is not None and event.asked.http is not None:
            yield event.asked.http, ("events", index, "rollback", "ask", "http")


def _topics(group: Group) -> Iterator[tuple[str, Place]]:
    for index, event in enumerate(group.events):
        if event.asked is not None:
            for key, topic in (("kafka", event.asked.kafka), ("answers", event.asked.answers)):
                if topic is not None:
                    yield topic, ("events", index, "rollback", "ask", key)
