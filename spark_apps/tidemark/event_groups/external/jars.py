"""JARs that event groups load for Spark: fetched with Ivy, which Spark ships, with all they need.

A file lies in the cache by its name and SHA-256, since several libraries may need it, and Spark
tells files that it sends to executors apart by their names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree
from zipfile import BadZipFile, ZipFile

from tidemark.event_group_settings import Allowed
from tidemark.event_groups.definition import model
from tidemark.event_groups.external.libraries import (
    Hashes,
    LoadedLibrary,
    allowed,
    fetch_by,
    require_same,
    sha256,
)
from tidemark.event_groups.failure import EventFailed
from tidemark.settings import Settings

_OF_SPARK = ("org.apache.spark", "org.scala-lang")
"""Groups of JARs that Spark has itself, and of which no second version works beside them."""
_FILE = "[organisation]_[artifact]-[revision](-[classifier]).[ext]"
_OF_JAVA = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
"""Variables in which Java is told of a proxy, or of authorities."""
_CAUSES = (r":::: ERRORS\s+(.+)", r"\[FAILED *\] (.+)", r":: (\S+#\S+: .+)")
"""Where Ivy says why it failed, the most telling place first."""


@dataclass(frozen=True)
class LoadedJar:
    """A JAR at a version; `jars` are its own and those of what it needs.

    Attributes:
        name: its coordinate, `group:artifact`.
        version: the version.
        jars: SHA-256 of each JAR.
        functions: the class of each function by its name.
    """

    name: str
    version: str
    jars: Hashes
    functions: Mapping[str, str]


Loaded = LoadedLibrary | LoadedJar
"""What a stream has loaded."""


@dataclass(frozen=True)
class JarFunctions:
    """The functions that Spark may call.

    Attributes:
        jars: the files in which their classes are, those of what these need included.
        classes: the class of each by its name.
    """

    jars: list[Path]
    classes: Mapping[str, str]


class Jars:
    """The JARs that may be loaded."""

    def __init__(self, settings: Settings) -> None:
        """Bind; nothing is fetched yet."""
        self._allowed = settings.event_group_allowed_jars
        self._repositories = settings.event_group_jar_repository_urls
        self._cache = settings.event_group_library_dir / "jars"

    def fetch(self, wanted: model.JarLibrary) -> LoadedJar:
        """Fetch a JAR and all that it needs, and keep them.

        Raises:
            EventFailed: it is not allowed, or not to be had, or a class of a function is not there.
        """
        jars = self._fetched(wanted.name, wanted.version)
        library = LoadedJar(wanted.name, wanted.version, jars, wanted.functions)
        _require_classes(library, self._places(library))
        return library

    def functions_of(self, loaded: Sequence[LoadedJar]) -> JarFunctions:
        """Return the functions of what was loaded before; it is fetched if it is not here.

        Raises:
            EventFailed: it cannot be fetched, or is not what it was.
        """
        files = dict.fromkeys(file for one in loaded for file in self._files(one))
        return JarFunctions(list(files), {k: v for one in loaded for k, v in one.functions.items()})

    def _files(self, library: LoadedJar) -> list[Path]:
        places = self._places(library)
        if not all(place.exists() for place in places):
            found = self._fetched(library.name, library.version)
            require_same(f"{library.name} {library.version}", library.jars, found)
        return places

    def _places(self, library: LoadedJar) -> list[Path]:
        return [self._place(name, hashed) for name, hashed in sorted(library.jars.items())]

    def _place(self, name: str, hashed: str) -> Path:
        return self._cache / f"{hashed[:16]}-{name}"

    def _fetched(self, name: str, version: str) -> dict[str, str]:
        is_local = bool(self._repositories) and all(
            place.startswith("file:") for place in self._repositories
        )
        source = "" if is_local else "a repository by its URL"
        entry = allowed(self._allowed, f"the JAR {name}", name, version, source)
        # Imported here, so that what loads no JAR does not wait for pyspark.
        from tidemark.spark_session import java_of_spark

        self._cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self._cache) as folder:
            settings, wanted = Path(folder) / "settings.xml", Path(folder) / "ivy.xml"
            _write(settings, _settings(self._repositories, Path(folder) / "cache"))
            _write(wanted, _wanted(name, version))
            downloaded = Path(folder) / "jars"
            options = {"settings": settings, "ivy": wanted, "retrieve": downloaded / _FILE}
            ivy = java_of_spark("ivy", "commons-cli")
            ivy += ["org.apache.ivy.Main", "-warn"]
            ivy += [part for key, value in options.items() for part in (f"-{key}", str(value))]
            fetch_by(f"{name} {version}", ivy, _cause, _OF_JAVA)
            hashes = {file.name: sha256(file) for file in sorted(downloaded.glob("*.jar"))}
            _require_allowed(entry, hashes)
            for jar, hashed in hashes.items():
                os.replace(downloaded / jar, self._place(jar, hashed))
        return hashes


def _require_allowed(entry: Allowed, hashes: Hashes) -> None:
    for jar, hashed in hashes.items():
        if entry.hashes and hashed not in entry.hashes:
            raise EventFailed(
                f"{entry.name} {entry.version} cannot be loaded: {jar} has --hash=sha256:{hashed},"
                " which its entry in TIDEMARK_EVENT_GROUP_JARS has not"
            )


def refuse_clash(loaded: Iterable[LoadedJar], wanted: model.JarLibrary) -> None:
    """Raise if a function has the name of one of another JAR.

    Raises:
        EventFailed: it has.
    """
    for other in loaded:
        if other.name != wanted.name and (same := other.functions.keys() & wanted.functions.keys()):
            raise EventFailed(f"{other.name} has a function {min(same)}, too")


def _settings(repositories: Iterable[str], cache: Path) -> ElementTree.Element:
    root = ElementTree.Element("ivysettings")
    ElementTree.SubElement(root, "settings", defaultResolver="all")
    ElementTree.SubElement(root, "caches", defaultCacheDir=str(cache))
    resolvers = ElementTree.SubElement(root, "resolvers")
    chain = ElementTree.SubElement(resolvers, "chain", name="all", returnFirst="true")
    # Without a root it is Maven Central.
    for number, place in enumerate([{"root": one} for one in repositories] or [{}]):
        ElementTree.SubElement(
            chain, "ibiblio", {"name": f"r{number}", "m2compatible": "true", **place}
        )
    return root


def _wanted(name: str, version: str) -> ElementTree.Element:
    root = ElementTree.Element("ivy-module", version="2.0")
    ElementTree.SubElement(root, "info", organisation="tidemark", module="libraries")
    dependencies = ElementTree.SubElement(root, "dependencies")
    group, artifact = name.split(":")
    ElementTree.SubElement(
        dependencies, "dependency", org=group, name=artifact, rev=version, conf="*->default"
    )
    for shipped in _OF_SPARK:
        ElementTree.SubElement(dependencies, "exclude", org=shipped)
    return root


def _write(file: Path, root: ElementTree.Element) -> None:
    ElementTree.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def _cause(said: str) -> str:
    for pattern in _CAUSES:
        if found := re.search(pattern, said):
            return found[1].replace("#", ":").replace(";", ":")
    return said


def _require_classes(library: LoadedJar, files: Iterable[Path]) -> None:
    try:
        names = {name for file in files for name in ZipFile(file).namelist()}
    except BadZipFile as error:
        raise EventFailed(f"{library.name} {library.version}: {error}") from None
    for function, name in library.functions.items():
        if f"{name.replace('.', '/')}.class" not in names:
            raise EventFailed(
                f"{library.name} {library.version} has no class {name} for {function}"
            )
