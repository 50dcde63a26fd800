"""JARs that event groups load for Spark: fetched with Ivy, which Spark ships, with dependencies.

The cache names a file by its name and SHA-256, since several libraries may need it, and Spark
distinguishes the files that it sends to executors by their names.
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
from tidemark.setting_groups.event_groups import Allowed
from tidemark.settings import Settings

_OF_SPARK = ("org.apache.spark", "org.scala-lang")
"""Groups of JARs that Spark has itself, and that do not work in a second version."""
_FILE = "[organisation]_[artifact]-[revision](-[classifier]).[ext]"
_OF_JAVA = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
"""Variables that tell Java about a proxy, or about certificate authorities."""
_CAUSES = (r":::: ERRORS\s+(.+)", r"\[FAILED *\] (.+)", r":: (\S+#\S+: .+)")
"""Where Ivy reports why it failed, the most informative place first."""


@dataclass(frozen=True)
class LoadedJar:
    """A JAR at a version; `jars` are its own and those of its dependencies.

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
"""A library that a stream has loaded."""


@dataclass(frozen=True)
class JarFunctions:
    """The functions that Spark may call.

    Attributes:
        jars: the files with their classes and with the dependencies of these.
        classes: the class of each function by its name.
    """

    jars: list[Path]
    classes: Mapping[str, str]


class Jars:
    """Fetches allowed JARs into a cache."""

    def __init__(self, settings: Settings) -> None:
        self._allowed = settings.event_group_allowed_jars
        self._repositories = settings.event_group_jar_repository_urls
        self._cache = settings.event_group_library_dir / "jars"

    def fetch(self, requested: model.JarLibrary) -> LoadedJar:
        """Fetch a JAR and its dependencies, and keep them.

        Raises:
            EventFailed: it is not allowed, not available, or lacks the class of a function.
        """
        jars = self._fetched(requested.name, requested.version)
        library = LoadedJar(requested.name, requested.version, jars, requested.functions)
        _require_classes(library, self._cached_files(library))
        return library

    def functions_of(self, loaded: Sequence[LoadedJar]) -> JarFunctions:
        """Return the functions of JARs that were loaded before; fetch those that are missing."""
        files = dict.fromkeys(file for jar in loaded for file in self._files(jar))
        return JarFunctions(list(files), {k: v for jar in loaded for k, v in jar.functions.items()})

    def _files(self, library: LoadedJar) -> list[Path]:
        files = self._cached_files(library)
        if not all(file.exists() for file in files):
            fetched = self._fetched(library.name, library.version)
            require_same(f"{library.name} {library.version}", library.jars, fetched)
        return files

    def _cached_files(self, library: LoadedJar) -> list[Path]:
        return [self._cached_file(name, digest) for name, digest in sorted(library.jars.items())]

    def _cached_file(self, name: str, digest: str) -> Path:
        return self._cache / f"{digest[:16]}-{name}"

    def _fetched(self, name: str, version: str) -> dict[str, str]:
        is_local = bool(self._repositories) and all(
            url.startswith("file:") for url in self._repositories
        )
        source = "" if is_local else "a repository by its URL"
        entry = allowed(self._allowed, f"the JAR {name}", name, version, source)
        # Imported here, so that groups without JARs do not wait for pyspark.
        from tidemark.spark_session import java_of_spark

        self._cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self._cache) as folder:
            settings, dependencies = Path(folder) / "settings.xml", Path(folder) / "ivy.xml"
            _write(settings, _settings(self._repositories, Path(folder) / "cache"))
            _write(dependencies, _ivy_module(name, version))
            downloaded = Path(folder) / "jars"
            options = {"settings": settings, "ivy": dependencies, "retrieve": downloaded / _FILE}
            ivy = java_of_spark("ivy", "commons-cli")
            ivy += ["org.apache.ivy.Main", "-warn"]
            ivy += [part for key, value in options.items() for part in (f"-{key}", str(value))]
            fetch_by(f"{name} {version}", ivy, _cause, _OF_JAVA)
            hashes = {file.name: sha256(file) for file in sorted(downloaded.glob("*.jar"))}
            _require_allowed(entry, hashes)
            for jar, digest in hashes.items():
                os.replace(downloaded / jar, self._cached_file(jar, digest))
        return hashes


def _require_allowed(entry: Allowed, hashes: Hashes) -> None:
    for jar, digest in hashes.items():
        if entry.hashes and digest not in entry.hashes:
            raise EventFailed(
                f"{entry.name} {entry.version} cannot be loaded: {jar} has --hash=sha256:{digest},"
                " which its entry in TIDEMARK_EVENT_GROUP_JARS has not"
            )


def refuse_clash(loaded: Iterable[LoadedJar], library: model.JarLibrary) -> None:
    """Raise EventFailed if another JAR has a function of the same name."""
    for other in loaded:
        if other.name != library.name and (
            both := other.functions.keys() & library.functions.keys()
        ):
            raise EventFailed(f"{other.name} has a function {min(both)}, too")


def _settings(repositories: Iterable[str], cache: Path) -> ElementTree.Element:
    root = ElementTree.Element("ivysettings")
    ElementTree.SubElement(root, "settings", defaultResolver="all")
    ElementTree.SubElement(root, "caches", defaultCacheDir=str(cache))
    resolvers = ElementTree.SubElement(root, "resolvers")
    chain = ElementTree.SubElement(resolvers, "chain", name="all", returnFirst="true")
    # Without a root, Ivy uses Maven Central.
    for number, attributes in enumerate([{"root": url} for url in repositories] or [{}]):
        ElementTree.SubElement(
            chain, "ibiblio", {"name": f"r{number}", "m2compatible": "true", **attributes}
        )
    return root


def _ivy_module(name: str, version: str) -> ElementTree.Element:
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


def _cause(output: str) -> str:
    for pattern in _CAUSES:
        if match := re.search(pattern, output):
            return match[1].replace("#", ":").replace(";", ":")
    return output


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
