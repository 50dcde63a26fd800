"""The libraries of one group: those loaded by earlier groups of its stream, and its own."""

from __future__ import annotations

from tidemark.context import RunContext
from tidemark.event_groups.definition import model
from tidemark.event_groups.external.jars import JarFunctions, Jars, LoadedJar, refuse_clash
from tidemark.event_groups.external.libraries import Libraries, places
from tidemark.event_groups.external.processes import Places
from tidemark.event_groups.stream.libraries import LoadedLibraries


class Loading:
    """Loads libraries, and tells where the users' functions are."""

    def __init__(self, run: RunContext, stream: str, sequence: int) -> None:
        self._settings = run.settings
        self._libraries, self._jars = Libraries(run.settings), Jars(run.settings)
        self._loaded = LoadedLibraries(run, stream)
        self._sequence = sequence

    def places(self) -> Places:
        """Return the places of the functions that the group may call now."""
        return places(self._settings, self._loaded.at(self._sequence))

    def jar_functions(self) -> JarFunctions:
        """Return the functions that Spark may call for the group now."""
        return self._jars.functions_of(self._loaded_jars())

    def _loaded_jars(self) -> list[LoadedJar]:
        loaded = self._loaded.at(self._sequence)
        return [library for library in loaded if isinstance(library, LoadedJar)]

    def load(self, library: model.Library | model.JarLibrary) -> None:
        """Load a library, for this group and all later ones."""
        if isinstance(library, model.JarLibrary):
            refuse_clash(self._loaded_jars(), library)
            self._loaded.load(self._sequence, self._jars.fetch(library))
        else:
            self._loaded.load(self._sequence, self._libraries.fetch(library.name, library.version))

    def take_back(self, library: model.Library | model.JarLibrary) -> None:
        """Let this group and all later ones use the library that was loaded before."""
        self._loaded.forget(self._sequence, library.key)
