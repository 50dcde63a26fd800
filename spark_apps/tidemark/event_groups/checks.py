"""The checks of groups before submission that need Cassandra or external services."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidemark.context import RunContext
from tidemark.event_groups.definition import tables
from tidemark.event_groups.definition.file import Fault, GroupDefinition, hooks_of, within
from tidemark.event_groups.driver_engine import declared_rows
from tidemark.event_groups.external import check as external_check
from tidemark.event_groups.external.jars import Jars, Loaded, LoadedJar
from tidemark.event_groups.stream.libraries import END, LoadedLibraries
from tidemark.event_groups.stream.owned_tables import OwnedTables, refusal
from tidemark.event_groups.stream.store import Stream


class Checks:
    """Checks groups that are submitted to one stream."""

    def __init__(self, run: RunContext, stream: str) -> None:
        """Read what every group is checked against.

        Raises:
            InvalidInput: there is no directory of projection files.
        """
        self._run, self._stream = run, Stream(run, stream)
        self._owner = tables.owners(run.settings)
        self._loaded = LoadedLibraries(run, stream).at(END)

    def check(self, definition: GroupDefinition, fault: Fault) -> None:
        """Check a group, and the groups that its hooks submit.

        Raises:
            DefinitionError: it cannot be executed; the error names the place in its file.
        """
        # A group that was submitted before, with the groups of its hooks, owns its tables already,
        # and was checked by the rules of that time.
        is_known = self._stream.has(definition.group.group)
        self._check(definition, fault, self._loaded, is_known=is_known)

    def _check(
        self, definition: GroupDefinition, fault: Fault, loaded: Sequence[Loaded], *, is_known: bool
    ) -> None:
        tables.check(self._run.control, self._owner, definition, fault)
        if not is_known:
            self._check_users(definition, fault)
            declared_rows.check(self._run.control, definition, fault)
        libraries_after = external_check.check(self._run.settings, definition, fault, loaded)
        if definition.functions or any(map(definition.has_many, definition.group.events)):
            # Imported here, so that other groups do not wait for Spark.
            from tidemark.event_groups.spark_engine import check as spark_check

            jars = [library for library in libraries_after if isinstance(library, LoadedJar)]
            functions = partial(Jars(self._run.settings).functions_of, jars)
            spark_check.check(self._run, definition, fault, functions)
        for _, hook, path in hooks_of(definition.group):
            if hook.submit is not None:
                inner = within(fault, (*path, "submit"))
                self._check(GroupDefinition(hook.submit), inner, libraries_after, is_known=is_known)

    def _check_users(self, definition: GroupDefinition, fault: Fault) -> None:
        owned = OwnedTables(self._run)
        others = {
            name: owned.users(name).other(self._stream.name, writes=writes)
            for name, writes in definition.tables.items()
        }
        for index, event in enumerate(definition.group.events):
            for parsed in definition.statements_of(event.name):
                if other := others[parsed.name]:
                    raise fault(*refusal(other, parsed.name), "events", index, "statement")
