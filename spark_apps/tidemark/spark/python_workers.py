"""Preparation of Spark's Python workers: they get this library, and their packages are checked.

The workers import this module, too, so it imports only packages that they must have.
"""

from __future__ import annotations

import importlib
import re
import socket
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

import tidemark
from tidemark.errors import InvalidInput
from tidemark.spark.masters import is_local

PACKAGES = {
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "cbor2": "cbor2",
    "google.protobuf": "protobuf",
}
"""The packages that the library and pyspark import there, with their distributions."""
OF_POSTGRES = {"psycopg": "psycopg"}
"""Those of a journal or a read model in PostgreSQL."""
UNPACKED = "tidemark-packages"
"""The name of the unpacked archive of packages in the directory of each executor."""
_ARCHIVE = "tidemark-library.zip"
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')
_OTHER_PYTHON = re.compile(r"different version \((\d+), (\d+)\) than that in driver (\S+),")
_REMEDY = 'see "Your Spark" in docs/cluster.md'


def prepare_python_workers(spark: SparkSession, *, with_postgres: bool = False) -> None:
    """Send the library to the workers and require their packages, once for a session.

    `with_postgres`: they also open sessions of PostgreSQL.

    Raises:
        InvalidInput: workers on other machines have another Python, or lack a package.
    """
    context = spark.sparkContext
    if _ARCHIVE not in (context._python_includes or ()):
        _ship_library(context)
    if not is_local(str(context.master)):
        _require_packages(context, with_postgres=with_postgres)


def _ship_library(context: SparkContext) -> None:
    # Spark serves the file from here until the context ends, and then deletes it.
    archive = Path(context._temp_dir) / _ARCHIVE
    root = Path(tidemark.__path__[0])
    with zipfile.ZipFile(archive, "w") as target:
        for file in sorted(root.rglob("*.py")):
            target.write(file, file.relative_to(root.parent))
    context.addPyFile(str(archive))


@lru_cache(maxsize=2)
def _require_packages(context: SparkContext, *, with_postgres: bool) -> None:
    """Check as many workers as there are cores, so that a run does not fail halfway."""
    tasks = context.defaultParallelism
    needed = PACKAGES | OF_POSTGRES if with_postgres else PACKAGES

    def packages_there(_: Iterable[int]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        yield socket.gethostname(), list(_versions(needed))

    try:
        packages = context.parallelize(range(tasks), tasks).mapPartitions(packages_there).collect()
    except Py4JJavaError as error:
        raise _explained(str(error.java_exception)) or error from None
    here = dict(_versions(needed))
    for host, there in sorted(packages):
        if faults := list(_faults(here, there)):
            raise InvalidInput(
                f"the Python workers of Spark have {'; '.join(faults)}", where=host, do=_REMEDY
            )


def _versions(packages: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each package with its version; the version is empty if the import fails."""
    for name, distribution in packages.items():
        try:
            importlib.import_module(name)
            yield name, metadata.version(distribution)
        except ImportError:
            yield name, ""


def _faults(here: Mapping[str, str], there: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, version in there:
        if not version:
            yield f"no {name}"
        elif version.partition(".")[0] != here[name].partition(".")[0]:
            yield f"{name} {version}, and the driver has {here[name]}"


def _explained(text: str) -> InvalidInput | None:
    """Return why Python workers do not start; None if the reason is unknown."""
    if match := _OTHER_PYTHON.search(text):
        there, here = f"{match[1]}.{match[2]}", match[3]
        what = f"the Python of Spark's workers is {there}, and the driver's is {here}"
    elif match := _NO_PYTHON.search(text):
        what = f"Spark's workers have no {match[1]}"
    else:
        return None
    return InvalidInput(what, where="PYSPARK_PYTHON", do=_REMEDY)
