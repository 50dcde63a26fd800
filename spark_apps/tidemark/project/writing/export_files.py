"""The files of mode `export`: one for each time bucket, in a directory of the Hive layout.

A batch is written next to the directory, because some readers also list files that they ignore,
and fail if such a file disappears. Then each file replaces the visible file of its time bucket in
one step: rename(2) on a local file system, rename with overwrite on HDFS. docs/projection-modes.md
has the reasons.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from tidemark.errors import InvalidInput, TidemarkError, root_cause
from tidemark.project.definition.model import Definition
from tidemark.settings import Settings
from tidemark.spark import gateway

LOCAL = "file"
SCHEMES = (LOCAL, "hdfs", "viewfs")
"""The file systems that can replace a file in one step."""
_BATCH = "_batch-"


@dataclass(frozen=True)
class Files:
    """The files of a projection in a directory.

    Attributes:
        directory: directory as a URI.
        stem: stem of every visible file's name, unique to the projection.
        connection: gateway to the JVM.
        system: file system, an `org.apache.hadoop.fs.FileSystem`.
    """

    directory: str
    stem: str
    connection: Any
    system: Any

    @property
    def hadoop(self) -> Any:
        """The JVM's package of file systems."""
        return self.connection.jvm.org.apache.hadoop.fs

    def visible(self, time_bucket: int) -> Any:
        """Return the path of the visible file of a time bucket."""
        bucket = self.hadoop.Path(self.directory, _partition(time_bucket))
        return self.hadoop.Path(bucket, f"{self.stem}.parquet")

    @property
    def parent(self) -> Any:
        """The directory of the batches, on the same file system so that a rename is one step."""
        return self.hadoop.Path(self.directory).getParent()

    def batch(self, name: str) -> Any:
        """Return the directory of a batch."""
        return self.hadoop.Path(self.parent, f"{_BATCH}{self.stem}-{name}")

    def listed(self, directory: Any) -> list[Any]:
        """Return the paths in a directory; empty if the directory does not exist."""
        if not self.system.exists(directory):
            return []
        return [status.getPath() for status in self.system.listStatus(directory)]


def resolve(definition: Definition, settings: Settings) -> str:
    """Return the target's directory as a URI; a relative path is below `settings.export_dir`.

    Raises:
        InvalidInput: the file system cannot replace a file in one step.
    """
    text = definition.path
    if not _scheme(text) and not text.startswith("/"):
        text = f"{str(settings.export_dir).rstrip('/')}/{text}"
    do = "in the target or in TIDEMARK_EXPORT_DIR, and copy the files from there"
    return directory(text, definition, do)


def directory(text: str, definition: Definition, do: str) -> str:
    """Return a directory as a URI; `do` ends the advice to use another file system.

    Raises:
        InvalidInput: the file system cannot replace a file in one step.
    """
    if not _scheme(text):
        # Hadoop does not unescape: with `as_uri`, escapes would be part of the file's name.
        return f"{LOCAL}://{Path(text).absolute()}"
    if _scheme(text) not in SCHEMES:
        raise InvalidInput(
            f"mode export does not write to {_scheme(text)}: it cannot replace a file in one step",
            where=f"{definition.file}:{definition.header_lines['target']}",
            do=f"use one of {', '.join(SCHEMES)} {do}",
        )
    return text.rstrip("/")


def _scheme(text: str) -> str:
    return urlsplit(text).scheme if "://" in text or text.startswith("file:/") else ""


def open_files(spark: SparkSession, directory: str, stem: str) -> Files:
    """Open the file system of the target, without writing.

    Raises:
        TidemarkError: Hadoop cannot open the file system, or the target is its root.
    """
    connection = gateway.connection(spark.sparkContext)
    configuration = gateway.context_of(spark).hadoopConfiguration()
    try:
        system = connection.jvm.org.apache.hadoop.fs.Path(directory).getFileSystem(configuration)
    except Py4JJavaError as error:
        raise TidemarkError(
            f"the file system of {directory} cannot be opened: {root_cause(error)}",
            do="correct the target, TIDEMARK_EXPORT_DIR or Hadoop's configuration",
        ) from None
    files = Files(directory, stem, connection, system)
    if files.parent is None:
        raise TidemarkError(
            f"the target {directory} is a whole file system", do="choose a directory in it"
        )
    return files


def write_batch(rows: DataFrame, files: Files, name: str) -> None:
    """Write a file for each time bucket that has rows, next to the directory: the first step.

    Columns in: time_bucket (bigint), which becomes the directory's name, and others.
    """
    # The default is a type of 96 bits that other readers no longer support.
    rows.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    order = [column for column in ("persistence_id", "sequence_nr") if column in rows.columns]
    (
        rows.repartition("time_bucket")
        .sortWithinPartitions("time_bucket", *order)
        .write.partitionBy("time_bucket")
        .option("maxRecordsPerFile", 0)
        .parquet(files.batch(name).toString())
    )


def replace_bucket(files: Files, name: str, time_bucket: int) -> None:
    """Replace the visible file of a time bucket by the batch's: the second step.

    Raises:
        TidemarkError: the batch does not have exactly one file of the bucket. Another run removed
            the file, or driver and executors do not share the file system.
    """
    staged = files.hadoop.Path(files.batch(name), _partition(time_bucket))
    staged_files = [path for path in files.listed(staged) if path.getName().endswith(".parquet")]
    if len(staged_files) != 1:
        raise TidemarkError(
            f"{len(staged_files)} files of time bucket {time_bucket} are there to be put in place,"
            " there must be one",
            where=str(staged.toString()),
            do="see that no other run works on it, and that driver and executors share the"
            " directory; then run again",
        )
    target = files.visible(time_bucket)
    files.system.mkdirs(target.getParent())
    if files.system.getScheme() == LOCAL:
        _replace_local(_local(staged_files[0]), _local(target))
    else:
        _replace_by_rename(files, staged_files[0], target)


def remove_bucket(files: Files, time_bucket: int) -> None:
    """Remove the visible file of a time bucket without rows: the second step."""
    # Keep its directory: readers that have just listed the directory would fail.
    files.system.delete(files.visible(time_bucket), False)


def remove_batches(files: Files) -> None:
    """Remove all batches of this projection, also those of dead runs: the first and last step."""
    for path in files.listed(files.parent):
        if path.getName().startswith(f"{_BATCH}{files.stem}-"):
            files.system.delete(path, True)


def _partition(time_bucket: int) -> str:
    return f"time_bucket={time_bucket}"


def _local(path: Any) -> Path:
    return Path(path.toUri().getPath())


def _replace_local(source: Path, target: Path) -> None:
    """Replace a local file by rename(2); Hadoop's own rename would delete the target first."""
    # Hadoop would use the checksum file of the source for the replaced file.
    source.with_name(f".{source.name}.crc").unlink(missing_ok=True)
    _sync(source)
    os.replace(source, target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _replace_by_rename(files: Files, source: Any, target: Any) -> None:
    """Replace a file by a rename with overwrite, which HDFS does in one step."""
    rename = files.hadoop.Options.Rename
    overwrite = files.connection.new_array(rename, 1)
    overwrite[0] = rename.OVERWRITE
    context = files.hadoop.FileContext.getFileContext(target.toUri(), files.system.getConf())
    context.rename(source, target, overwrite)
