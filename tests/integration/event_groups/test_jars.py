"""JARs that event groups load for Spark: from a group on, each version for itself, taken back."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.faults.dying import dying_after
from tests.faults.seams import Seam
from tests.integration.java_repository import compiled, publish
from tests.integration.support import ROOT, Journal, Result
from tidemark import spark_session
from tidemark.cassandra import cells
from tidemark.cassandra.schema import table
from tidemark.event_groups.spark_engine import writes
from tidemark.spark import gateway

pytestmark = pytest.mark.usefixtures("production")
Settings = dict[str, str]
ITEMS = 20
LOAD = """
group: load-{version}
events:
  - name: load
    library:
      jar: org.example:{artifact}
      version: {version}
      functions: {{{function}: org.example.{name}}}
"""
FAIL = """
  - {name: fail, statement: "SELECT id FROM <item>", expect: none, after: [load]}
"""
USE = """
group: {name}
rows: [{rows}]
events:
  - {{name: read, many: true, statement: "SELECT id, n FROM <item>"}}
  - name: write
    each: read
    after: [read]
    statement: "UPDATE <item> SET {column} = :note WHERE id = :id"
    needs:
      - {{event: read, as: id}}
      - {{event: read, as: note, sql: "{sql}"}}
"""
SOURCE = """
import org.apache.spark.sql.api.java.UDF2;
public class Note implements UDF2<String, Integer, String> {
  public String call(String id, Integer n) {
    if (n == 1000) throw new IllegalStateException("no note of " + id);
    if (n == 1001) throw new Refusal();
    return "VERSION of " + id + n + ", " + Base.name();
  }
}
"""
ON_EXECUTORS = """
import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession
from tidemark.spark import gateway
from tidemark.spark.isolated_jars import IsolatedJars

repository, connector = sys.argv[1:]
spark = (
    SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    .config("spark.executor.memory", "512m").config("spark.jars", connector).getOrCreate()
)
made = {}


def make(version):
    session = gateway.clone(spark)
    jars = [Path(repository, f"{name}-{version}.jar") for name in ("rules", "base")]
    isolated = IsolatedJars(session, jars)
    isolated.register(session, "note", "org.example.Note")
    with isolated.in_use():
        rows = session.range(4, numPartitions=4).selectExpr("note('i', int(id)) AS n")
        made.setdefault(version, []).append(rows.repartition(3).agg({"n": "max"}).first()[0])


for versions in ("1", "12"):
    threads = [threading.Thread(target=make, args=(version,)) for version in versions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # What has no set of its own takes none that is in use no more, nor has what is new after it.
    spark.range(4, numPartitions=4).repartition(2).count()
print(sorted(made.items()))
spark.stop()
"""
OTHERS = {
    "Refusal": "public class Refusal extends RuntimeException {}",
    "Nothing": "public class Nothing {}",
    "Secret": "import org.apache.spark.sql.api.java.UDF0; public class Secret implements"
    " UDF0<String> { public Secret(int n) {} public String call() { return null; } }",
    "Broken": "import org.apache.spark.sql.api.java.UDF0; public class Broken implements"
    ' UDF0<String> { { if (true) throw new IllegalStateException("not today"); }'
    " public String call() { return null; } }",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository: rules 1 and 2, which need base 1 and 2, and 3, which needs none."""
    folder = tmp_path_factory.mktemp("java")
    made = folder / "repository"
    for version in ("1", "2"):
        base = f'public class Base {{ public static String name() {{ return "b{version}"; }} }}'
        sources = {"Note": SOURCE.replace("VERSION", f"v{version}"), "Base": base, **OTHERS}
        classes = compiled(folder / version, sources)
        own = [one for one in classes.iterdir() if one.name != "Base.class"]
        needs = (f"org.example:base:{version}", "org.apache.spark:spark-sql_2.12:0.0.1")
        publish(made, "rules", version, own, *needs)
        publish(made, "base", version, [classes / "Base.class"])
        publish(made, "other", version, own)
    publish(made, "rules", "3", [], "org.example:base:9")
    return made


@pytest.fixture
def settings(tmp_path: Path, repository: Path) -> Settings:
    """Return the settings of a copy of the repository; Spark knows the libraries by their place."""
    shutil.copytree(repository, tmp_path / "repository")
    libraries = repository.with_name("libraries")
    shutil.rmtree(libraries, ignore_errors=True)
    return {
        "EVENT_GROUP_JARS": "org.example:rules, org.example:other",
        "EVENT_GROUP_JAR_REPOSITORIES": str(tmp_path / "repository"),
        "EVENT_GROUP_LIBRARY_DIR": str(libraries),
    }


@pytest.fixture
def shop(make_journal: Callable[..., Journal]) -> Journal:
    """Return a keyspace with items."""
    journal = make_journal()
    name = table(journal.keyspace, "item")
    columns = "id text PRIMARY KEY, n int, a text, b text, c text, d text"
    journal.control.execute_ddl(f"CREATE TABLE {name} ({columns})")
    journal.insert("item", [{"id": f"i{n}-", "n": n} for n in range(ITEMS)])
    return journal


def load(version: str, artifact: str = "rules", function: str = "note", name: str = "Note") -> str:
    return LOAD.format(version=version, artifact=artifact, function=function, name=name)


def use(name: str, column: str = "a", sql: str = "note(id, n)") -> str:
    rows = ", ".join(f"{{table: <item>, key: {{id: i{n}-}}}}" for n in range(ITEMS))
    return USE.format(name=name, column=column, sql=sql, rows=rows)


def load_and_use(version: str, column: str) -> str:
    """Return a group that first reads, then loads, then calls what it has loaded."""
    events = use("x", column).split("events:\n")[1].replace("after: [read]", "after: [read, load]")
    return load(version) + events


def submit(journal: Journal, folder: Path, settings: Settings, *texts: str) -> Result:
    files = []
    for text in texts:
        files.append(folder / f"{len(list(folder.iterdir()))}.yaml")
        files[-1].write_text(text.replace("<item>", f"{journal.keyspace}.item"))
    return journal.run("run_event_groups", "submit", *map(str, files), **settings)


def submitted(journal: Journal, folder: Path, settings: Settings, *texts: str) -> None:
    result = submit(journal, folder, settings, *texts)
    assert result.status == 0, result.stderr


def executed(journal: Journal, settings: Settings, status: int = 0) -> list[str]:
    result = journal.run("run_event_groups", **settings)
    assert result.status == status, (result.stderr, result.stdout)
    lines: list[str] = result.report["lines"]
    return lines


def notes(journal: Journal, column: str) -> dict[str, Any]:
    return {row["id"]: row[column] for row in journal.rows("item")}


def of(version: str) -> dict[str, str]:
    return {f"i{n}-": f"v{version} of i{n}-{n}, b{version}" for n in range(ITEMS)}


@pytest.mark.long
def test_jars_are_loaded_by_a_driver_of_its_own(
    shop: Journal, tmp_path: Path, settings: Settings
) -> None:
    """Its executor asks the driver for them, who asks who is there."""
    submitted(shop, tmp_path, settings, load("1"))
    executed(shop, settings)
    submitted(shop, tmp_path, settings, use("used"))
    result = shop.run_alone("run_event_groups", **settings)
    assert result.status == 0, result.stderr
    assert notes(shop, "a") == of("1")


def test_groups_of_one_run_use_the_version_that_was_loaded_before_them(
    shop: Journal, tmp_path: Path, settings: Settings
) -> None:
    submitted(shop, tmp_path, settings, load("1"))
    executed(shop, settings)
    texts = [use("one", "a"), load_and_use("2", "b"), use("two", "c", "concat(note(id, n), '!')")]
    submitted(shop, tmp_path, settings, *texts)
    executed(shop, settings)
    assert notes(shop, "a") == of("1")
    assert notes(shop, "b") == of("2")
    assert notes(shop, "c") == {key: f"{note}!" for key, note in of("2").items()}
    rows = shop.own_rows("group_library")
    assert [(row["name"], row["sequence"], row["version"]) for row in rows] == [
        ("org.example:rules", 1, "1"),
        ("org.example:rules", 3, "2"),
    ]
    assert {*json.loads(rows[0]["jars"])} == {
        "org.example_rules-1.jar",
        "org.example_base-1.jar",
    }


@pytest.mark.long
def test_each_group_is_played_with_the_version_that_it_had(
    shop: Journal, make_journal: Callable[..., Journal], tmp_path: Path, settings: Settings
) -> None:
    texts = [load("1"), use("one", "a"), load_and_use("2", "b")]
    for text in texts:
        submitted(shop, tmp_path, settings, text)
        executed(shop, settings)
    copy = make_journal()
    columns = "id text PRIMARY KEY, n int, a text, b text, c text, d text"
    copy.control.execute_ddl(f"CREATE TABLE {table(copy.keyspace, 'item')} ({columns})")
    into = f"{shop.keyspace}={copy.keyspace}"
    result = shop.run("run_event_groups", "playback", "--into", into, "--apply", **settings)
    assert result.status == 0, result.stderr
    assert notes(copy, "a") == of("1")
    assert notes(copy, "b") == of("2")


@pytest.mark.long
def test_a_load_that_is_rolled_back_leaves_the_older_version(
    shop: Journal, tmp_path: Path, settings: Settings
) -> None:
    submitted(shop, tmp_path, settings, load("1"))
    executed(shop, settings)
    submitted(shop, tmp_path, settings, load("2") + FAIL, use("after"))
    [line] = executed(shop, settings, 3)
    assert line.startswith("load-2: rolled-back: fail:")
    assert notes(shop, "a") == of("1")


@pytest.mark.long
@pytest.mark.parametrize("seam", [Seam.LIBRARY_LOADED, Seam.EVENT_BEGUN, Seam.EVENT_ENDED])
def test_a_run_that_dies_beside_a_load_is_ended_by_the_next(
    shop: Journal, tmp_path: Path, settings: Settings, seam: Seam
) -> None:
    submitted(shop, tmp_path, settings, load_and_use("1", "a"))
    # The select of many rows begins first, or beside the load.
    with dying_after(seam, 1):
        shop.run("run_event_groups", **settings)
    assert notes(shop, "a") == dict.fromkeys(of("1"))
    executed(shop, settings)
    assert notes(shop, "a") == of("1")


def test_a_run_that_dies_while_rows_are_written_goes_on_with_the_version_of_its_group(
    shop: Journal, tmp_path: Path, settings: Settings
) -> None:
    submitted(shop, tmp_path, settings, load_and_use("1", "a"))
    with dying_after(Seam.MANY_ROWS_SENT, 1):
        shop.run("run_event_groups", **settings)
    # Another machine, which has fetched nothing yet.
    shutil.rmtree(settings["EVENT_GROUP_LIBRARY_DIR"])
    executed(shop, settings)
    assert notes(shop, "a") == of("1")


@pytest.mark.long
def test_a_jar_that_is_not_what_it_was_is_not_used(
    shop: Journal, tmp_path: Path, settings: Settings
) -> None:
    submitted(shop, tmp_path, settings, load("1"))
    executed(shop, settings)
    submitted(shop, tmp_path, settings, use("after"))
    shutil.rmtree(settings["EVENT_GROUP_LIBRARY_DIR"])
    repository = Path(settings["EVENT_GROUP_JAR_REPOSITORIES"])
    publish(repository, "base", "1", [])
    [line] = executed(shop, settings, 3)
    says = "org.example:rules 1 is not what was loaded before: org.example_base-1.jar"
    assert line == f"after: rolled-back: write: {says}"
    assert notes(shop, "a") == dict.fromkeys(of("1"))
    result = submit(shop, tmp_path, settings, use("another"))
    assert says in result.error_lines[0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "says"),
    [
        (1000, "no note of i5-"),
        (1001, "a function has thrown an exception of its JAR's own"),
    ],
)
def test_what_a_function_throws_fails_the_event(
    shop: Journal, tmp_path: Path, settings: Settings, number: int, says: str
) -> None:
    shop.insert("item", [{"id": "i5-", "n": number}])
    submitted(shop, tmp_path, settings, load_and_use("1", "a"))
    [line] = executed(shop, settings, 3)
    assert line.startswith(f"load-1: rolled-back: write: {says}")
    assert notes(shop, "a") == dict.fromkeys(of("1"))
    assert shop.own_rows("group_library") == []


@pytest.mark.long
def test_each_job_over_many_rows_says_which_jars_it_has(
    shop: Journal,
    tmp_path: Path,
    settings: Settings,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would get those of other groups, and so would all that run behind it."""
    found: dict[str, bool] = {}
    for owner, name in ((cells, "scan"), (cells, "of_rows"), (writes, "restore")):
        function = getattr(owner, name)

        def noted(*args: Any, made: Any = function, name: str = name, **kwargs: Any) -> Any:
            states = gateway.named(spark, "org.apache.spark.JobArtifactSet$")
            found[name] = bool(states.getCurrentJobArtifactState().isDefined())
            return made(*args, **kwargs)

        monkeypatch.setattr(owner, name, noted)
    fails = FAIL.replace("load", "write")
    submitted(shop, tmp_path, settings, use("plain", sql="upper(id)") + fails)
    executed(shop, settings, 3)
    assert found == {"scan": True, "of_rows": True, "restore": True}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (load("1", "base"), "the JAR org.example:base is not allowed"),
        (load("8"), "org.example:rules 8 cannot be loaded: org.example:rules:8: not found"),
        (load("1", name="Nowhere"), "org.example:rules 1 has no class org.example.Nowhere for"),
        (load("1", name="Nothing"), "org.example.Nothing doesn't implement any UDF interface"),
        (load("1", function="concat"), "Spark has a function concat itself"),
        *(
            pytest.param(text, says, marks=pytest.mark.long)
            for text, says in (
                (load("3"), "org.example:rules 3 cannot be loaded: org.example:base:9: not found"),
                (load("1", name="Secret"), "note: org.example.Secret cannot be made"),
                (load("1", name="Broken"), "org.example.Broken cannot be made: not today"),
                (use("g"), "the function note is not allowed"),
                (load_and_use("1", "a").replace("note(id, n)", "note(id)"), "note"),
            )
        ),
    ],
)
def test_a_jar_that_cannot_be_loaded_is_refused_at_its_place(
    shop: Journal, tmp_path: Path, settings: Settings, text: str, says: str
) -> None:
    result = submit(shop, tmp_path, settings, text)
    assert result.status == 2
    assert says in result.error_lines[0]
    assert ".yaml:" in result.error_lines[0]
    assert shop.own_rows("event_group") == []


@pytest.mark.long
def test_two_jars_do_not_bring_the_same_function(
    shop: Journal, tmp_path: Path, settings: Settings
) -> None:
    other = load("2", "other")
    submitted(shop, tmp_path, settings, load("1"), other)
    [line] = executed(shop, settings, 3)
    says = "org.example:rules has a function note, too"
    assert line == f"load-2: rolled-back: load: {says}"
    result = submit(shop, tmp_path, settings, other.replace("load-2", "again"))
    assert says in result.error_lines[0]


def test_a_load_without_many_rows_starts_no_spark_when_it_is_executed(
    shop: Journal, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(shop, tmp_path, settings, load("1"))

    def refuse(*_: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr(spark_session, "open_session", refuse)
    executed(shop, settings)
    [row] = shop.own_rows("group_library")
    assert json.loads(row["functions"]) == {"note": "org.example.Note"}


@pytest.mark.long
def test_executors_in_processes_of_their_own_keep_versions_apart(
    repository: Path,
    tmp_path: Path,
    spark_environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for jar in repository.rglob("*.jar"):
        shutil.copy(jar, tmp_path)
    script = tmp_path / "on_executors.py"
    script.write_text(ON_EXECUTORS)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "spark_apps"))
    monkeypatch.setenv("SPARK_HOME", str(Path(pyspark.__file__).parent))
    for name in ("JAVA_HOME", "PYSPARK_PYTHON"):
        if name in spark_environment:
            monkeypatch.setenv(name, spark_environment[name])
    connector = spark_environment["TIDEMARK_SPARK_JARS"].split(",")[0]
    command = [sys.executable, str(script), str(tmp_path), connector]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found = {"1": ["v1 of i3, b1"] * 2, "2": ["v2 of i3, b2"]}
    assert ended.stdout.splitlines()[-1] == str(sorted(found.items()))
