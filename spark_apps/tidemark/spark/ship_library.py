"""This library in Spark's Python workers, whatever is installed where they run."""

from __future__ import annotations

import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

import tidemark

_ARCHIVE = "tidemark-library.zip"


def ship_library(spark: SparkSession) -> None:
    """Send the library's modules to the workers, once for a session."""
    context = spark.sparkContext
    if _ARCHIVE in (context._python_includes or ()):
        return
    # Spark serves the file from here as long as the context lives, and deletes it then.
    archive = Path(context._temp_dir) / _ARCHIVE
    root = Path(tidemark.__path__[0])
    with zipfile.ZipFile(archive, "w") as target:
        for file in sorted(root.rglob("*.py")):
            target.write(file, file.relative_to(root.parent))
    context.addPyFile(str(archive))
