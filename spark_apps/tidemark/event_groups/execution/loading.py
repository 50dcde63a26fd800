"""The libraries of one group: those that its stream has loaded up to it, and its own."""

from __future__ import annotations

from tidemark.context import RunContext
from tidemark.event_groups.definition import model
from tidemark.event_groups.external.jars import JarFunctions, Jars, LoadedJar, refuse_clash
from tidemark.event_groups.external.libraries import Libraries, places
from tidemark.event_groups.external.processes import Places
from tidemark.event_groups.stream.libraries import LoadedLibraries


class Loading:
    """Loads libraries, and lets the users' functions be found in them."""

    def __init__(self, run: RunContext, stream: str, sequence: int) -> None:
        """Bind; nothing is read yet."""
        self._settings = run.settings
        self._libraries, self._jars = Libraries(run.settings), Jars(run.settings)
        self._loaded = LoadedLibraries(run, stream)
        self._sequence = sequence

    def places(self) -> Places:
        """Return where the functions are that the group may call now.

        Raises:
            EventFailed: a library that was loaded before cannot be had any more.
        """
        return places(self._settings, self._loaded.at(self._sequence))

    def jar_functions(self) -> JarFunctions:
        """Return the functions that Spark may call for the group now.

        Raises:
            EventFailed: a JAR that was loaded before cannot be had any more.
        """
        return self._jars.functions_of(self._loaded_jars())

    def _loaded_jars(self) -> list[LoadedJar]:
        loaded = self._loaded.at(self._sequence)
        return [one for one in loaded if isinstance(one, LoadedJar)]

    def load(self, wanted: model.Library | model.JarLibrary) -> None:
        """Load a library, for this group and all behind it.

        Raises:
            EventFailed: it cannot be loaded.
        """
        if isinstance(wanted, model.JarLibrary):
            refuse_clash(self._loaded_jars(), wanted)
            self._loaded.load(self._sequence, self._jars.fetch(wanted))
        else:
            self._loaded.load(self._sequence, self._libraries.fetch(wanted.name, wanted.version))

    def take_back(self, wanted: model.Library | model.JarLibrary) -> None:
        """Let this group, and all behind it, use what was loaded before."""
        self._loaded.forget(self._sequence, wanted.key)
