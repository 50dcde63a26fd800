"""docker-compose.yml: valid, health-checked, and without a secret of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker-compose.yml"
SECRETS = (
    "POSTGRES_PASSWORD",
    "REDIS_PASSWORD",
    "AIRFLOW_FERNET_KEY",
    "AIRFLOW_JWT_SECRET",
    "AIRFLOW_SECRET_KEY",
)


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """Return the decoded file, with anchors and merges resolved."""
    content: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return content


def check(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a checker, whose output becomes the test's message."""
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def test_compose_accepts_the_file() -> None:
    """The client checks the file where it is installed, else the Compose schema does."""
    schema = Path(sys.executable).parent / "check-jsonschema"
    answer = check(str(schema), "--builtin-schema", "vendor.compose-spec", str(FILE))
    assert answer.returncode == 0, answer.stdout
    if shutil.which("docker") and check("docker", "compose", "version").returncode == 0:
        answer = check("docker", "compose", "config", "--quiet", **dict.fromkeys(SECRETS, "x"))
        assert answer.returncode == 0, answer.stderr


def test_every_part_of_the_platform_is_there(compose: dict[str, Any]) -> None:
    images = {name: service["image"] for name, service in compose["services"].items()}
    assert images["cassandra"] == "cassandra:5.0"
    assert images["kafka"].startswith("apache/kafka:4.")
    assert images["spark-master"].startswith("apache/spark:3.5.")
    assert {name for name, image in images.items() if image.startswith("apache/airflow:3.3.")} == {
        "spark-worker-1",
        "spark-worker-2",
        "airflow-init",
        "airflow-api-server",
        "airflow-scheduler",
        "airflow-dag-processor",
        "airflow-triggerer",
        "airflow-worker",
    }
    assert {"postgres", "redis"} <= images.keys()


def test_every_service_that_stays_is_health_checked(compose: dict[str, Any]) -> None:
    staying = {name for name in compose["services"] if not name.endswith("-init")}
    assert {name for name in staying if "healthcheck" not in compose["services"][name]} == set()


def test_versions_are_those_of_the_lock(compose: dict[str, Any]) -> None:
    locked = dict(
        re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.M)
    )
    services = compose["services"]
    assert services["airflow-worker"]["image"] == (
        f"apache/airflow:{locked['apache-airflow']}-python3.11"
    )
    assert services["spark-master"]["image"].startswith(f"apache/spark:{locked['pyspark']}-")


def test_workers_run_what_the_driver_runs(compose: dict[str, Any]) -> None:
    """Python refuses workers of another version, and both sides need the same packages."""
    services = compose["services"]
    driver = services["airflow-worker"]
    for worker in (services["spark-worker-1"], services["spark-worker-2"]):
        assert worker["image"] == driver["image"]
        for name in ("_PIP_ADDITIONAL_REQUIREMENTS", "PYTHONPATH", "SPARK_HOME", "JAVA_HOME"):
            assert worker["environment"][name] == driver["environment"][name]


@pytest.mark.parametrize("setting", ["TIDEMARK_DATA_DOCS_DIR", "TIDEMARK_EXPORT_DIR"])
def test_what_applications_write_lies_where_their_user_may_write(
    compose: dict[str, Any], setting: str
) -> None:
    """The directories are in a volume of that user, not below the mounted repository."""
    services = compose["services"]
    where = services["airflow-worker"]["environment"][setting]
    assert where in services["data-init"]["command"][0].split()
    # The API server shows Data Docs.
    assert services["airflow-api-server"]["environment"][setting] == where
    sharing = ("airflow-api-server", "airflow-worker", "spark-worker-1", "spark-worker-2")
    for name in (*sharing, "data-init"):
        assert "data:/opt/data" in services[name]["volumes"]
        needed = services[name].get("depends_on", {})
        assert name == "data-init" or {"data-init", "airflow-init"} & needed.keys()


@pytest.mark.parametrize(
    ("password", "status"), [("Abc_1.2-3", 0), ("", 0), ('a"b', 2), ("a@b", 2), ("a b", 2)]
)
def test_password_that_would_end_a_url_or_json_is_refused(
    compose: dict[str, Any], password: str, status: int
) -> None:
    [script] = compose["services"]["airflow-init"]["command"]
    check_only, separator, _ = script.replace("$$", "$").partition("exec /entrypoint")
    assert separator
    for name in ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "CASSANDRA_PASSWORD"):
        answer = check("bash", "-c", check_only, **{name: password})
        assert answer.returncode == status, answer.stderr
        assert (name in answer.stderr) == (status == 2)
        assert not password or password not in answer.stderr


@pytest.mark.parametrize("secret", SECRETS)
def test_secret_comes_from_the_environment_and_has_no_default(secret: str) -> None:
    text = FILE.read_text()
    assert re.search(rf"\$\{{{secret}:\?[^}}]+\}}", text)
    assert not re.search(rf"\$\{{{secret}:?-", text)
    assert f"\n{secret}=\n" in f"\n{(ROOT / '.env.example').read_text()}"
