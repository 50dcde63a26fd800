"""A Maven repository of small JARs, compiled with the compiler that Cassandra brings."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyspark

from embedded.machine import jars
from tidemark.spark_session import java_of_spark

_POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>
<artifactId>{artifact}</artifactId><version>{version}</version><dependencies>{needs}</dependencies>
</project>"""
_NEED = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
</dependency>"""


def compiled(folder: Path, sources: Mapping[str, str]) -> Path:
    """Compile classes of the package org.example by name; return the directory of the package."""
    package = folder / "sources" / "org" / "example"
    package.mkdir(parents=True)
    for name, source in sources.items():
        (package / f"{name}.java").write_text(f"package org.example;\n{source}")
    [compiler] = (one for one in jars.fetch("cassandra") if one.name.startswith("ecj-"))
    spark = Path(pyspark.__file__).parent / "jars"
    path = ":".join(str(jar) for jar in spark.glob("spark-sql*.jar"))
    command = [java_of_spark()[0], "-jar", str(compiler), "-17", "-nowarn", "-proc:none"]
    command += ["-cp", path, "-d", str(folder / "classes"), str(package)]
    subprocess.run(command, check=True)
    return folder / "classes" / "org" / "example"


def publish(
    repository: Path, artifact: str, version: str, classes: Iterable[Path], *needs: str
) -> Path:
    """Put a JAR of classes into the repository, with what it needs as `group:artifact:version`."""
    folder = repository / "org" / "example" / artifact / version
    folder.mkdir(parents=True, exist_ok=True)
    needed = "".join(_NEED.format(*need.split(":")) for need in needs)
    pom = _POM.format(artifact=artifact, version=version, needs=needed)
    (folder / f"{artifact}-{version}.pom").write_text(pom)
    jar = folder / f"{artifact}-{version}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for file in classes:
            archive.write(file, f"org/example/{file.name}")
    return jar
