"""The Iceberg table of a projection, in the catalog of the settings.

Iceberg's runtime is loaded when the first run of a session opens a table.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemark.context import RunContext
from tidemark.errors import InvalidInput, TidemarkError, root_cause
from tidemark.project.definition.model import Definition
from tidemark.project.writing import export_files
from tidemark.project.writing.iceberg import runtime
from tidemark.settings import Settings
from tidemark.spark import gateway
from tidemark.spark.gateway import named

OWNER = "tidemark.projection"
"""The table's property with the projection that writes it, `<journal keyspace>/<name>`."""
_BRANCH = "tidemark_"


@dataclass(frozen=True)
class IcebergTable:
    """The Iceberg table of a projection; it need not exist.

    Attributes:
        target: `namespace.table`, for people.
        name: name in Spark's SQL, quoted, with the catalog.
        owner: identity of the projection.
        directory: directory of the table if the catalog is a file catalog, as a URI; else empty.
    """

    spark: SparkSession
    target: str
    name: str
    owner: str
    directory: str

    @classmethod
    def of(cls, run: RunContext, definition: Definition) -> IcebergTable:
        """Open the catalog of a definition's table; nothing is written.

        Raises:
            InvalidInput: Iceberg's runtime is missing, or Spark does not have the catalog, or the
                file system of a file catalog cannot replace a file in one step.
        """
        catalog, warehouse = _open_catalog(run, definition)
        parts = definition.path.split(".")
        return cls(
            run.spark,
            definition.path,
            ".".join(f"`{part}`" for part in (catalog, *parts)),
            definition.identity(run.settings.journal_keyspace),
            "/".join((warehouse, *parts)) if warehouse else "",
        )

    @property
    def exists(self) -> bool:
        """Whether the catalog has the table.

        Raises:
            TidemarkError: the catalog does not answer.
        """
        with self.errors("cannot be found"):
            return bool(gateway.session_of(self.spark).catalog().tableExists(self.name))

    @property
    def written_by(self) -> str | None:
        """The identity of the projection that the existing table belongs to; None without one."""
        return self.loaded().properties().get(OWNER)  # type: ignore[no-any-return]

    @property
    def is_own(self) -> bool:
        """Whether the table exists and belongs to the projection."""
        return self.exists and self.written_by == self.owner

    def branch_name(self, branch: str) -> str:
        """Return the name of a branch in Spark's SQL."""
        return f"{self.name}.`branch_{branch}`"

    def loaded(self) -> Any:
        """Return the present state of the table, an `org.apache.iceberg.Table`.

        Raises:
            TidemarkError: the table cannot be read.
        """
        with self.errors("cannot be read"):
            session = gateway.session_of(self.spark)
            table = named(self.spark, "org.apache.iceberg.spark.Spark3Util").loadIcebergTable(
                session, self.name
            )
            table.refresh()
        return table

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Turn errors of the catalog and of its files into one line."""
        try:
            yield
        except (Py4JJavaError, PySparkException) as error:
            raise TidemarkError(
                f"the Iceberg table {self.target} {what}: {root_cause(error)}",
                do="see that no other program changes it, and that the catalog can be reached;"
                " then run again",
            ) from None

    @contextmanager
    def commit(self, what: str) -> Iterator[None]:
        """Turn errors of a commit into one line, and keep other processes from committing.

        Raises:
            TidemarkError: the commit fails, or another process of this machine is in a commit.
        """
        with self.exclusive(), self.errors(what):
            yield

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other processes of this machine from committing to a table in local files.

        A run may be suspended in a commit for longer than its lock lasts. Other file systems and
        catalogs then reject the commit; a local rename would replace that of the next run.

        Raises:
            TidemarkError: another process is in a commit.
        """
        if not self.directory.startswith(f"{export_files.LOCAL}:"):
            yield
            return
        directory = Path(self.directory.removeprefix(f"{export_files.LOCAL}://"))
        directory.mkdir(parents=True, exist_ok=True)
        # Readers and Iceberg's own search for orphans ignore names with a dot at the front.
        with (directory / ".tidemark.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TidemarkError(
                    f"another process of this machine is changing the Iceberg table {self.target}",
                    where=str(directory),
                    do="end that process, which may be suspended; then run again",
                ) from None
            yield


def is_batch(branch: str) -> bool:
    """Return whether a branch is the batch of a run."""
    return branch.startswith(_BRANCH)


def batch_branch(batch_id: str) -> str:
    """Return the branch of a run's batch."""
    return f"{_BRANCH}{batch_id}"


def _open_catalog(run: RunContext, definition: Definition) -> tuple[str, str]:
    """Return the name of the catalog, and the directory of a file catalog or ""."""
    spark, settings = run.spark, run.settings
    runtime.load(spark, settings)
    if settings.iceberg_catalog:
        _require_catalog(spark, settings)
        return settings.iceberg_catalog, ""
    do = "in TIDEMARK_EXPORT_DIR, or name a catalog of Spark's in TIDEMARK_ICEBERG_CATALOG"
    warehouse = export_files.directory(str(settings.export_dir), definition, do)
    # Spark keeps a catalog as it was at its first use: a name stands for one directory.
    name = f"tidemark_{hashlib.sha256(warehouse.encode()).hexdigest()[:8]}"
    key = f"spark.sql.catalog.{name}"
    for option, value in (
        ("", runtime.CATALOG_CLASS),
        (".type", "hadoop"),
        (".warehouse", warehouse),
        (".cache-enabled", "false"),
    ):
        spark.conf.set(f"{key}{option}", value)
    return name, warehouse


def _require_catalog(spark: SparkSession, settings: Settings) -> None:
    key = f"spark.sql.catalog.{settings.iceberg_catalog}"
    if spark.conf.get(key, "") == "":
        raise InvalidInput(
            f"Spark's configuration has no catalog {settings.iceberg_catalog}",
            where="TIDEMARK_ICEBERG_CATALOG",
            do=f"set {key}={runtime.CATALOG_CLASS} and its options in spark-defaults.conf or on the"
            " command line of spark-submit",
        )
