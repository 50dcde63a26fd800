"""docker-compose.yml and its override: valid, health-checked, and as the images' defaults say.

No container runs here: what the public images do is in tests/compose/images.json, with its sources,
and what is of our own image is asked where it can be.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.compose.document import BASE, IMAGES, OWN, OWN_BASE, ROOT, TLS, load, tag, words

AIRFLOW = {
    "airflow-init",
    "airflow-api-server",
    "airflow-scheduler",
    "airflow-dag-processor",
    "airflow-triggerer",
    "airflow-worker",
    "flights",
}
SPARK = {"spark-master", "spark-worker-1", "spark-worker-2"}
ONE_SHOT = {"volumes-init", "cassandra-init", "airflow-init", "flights"}
FILES = {"plain": (BASE,), "tls": (BASE, TLS)}
PORTS = {"spark-master": {7077, 8080}, "spark-worker-1": {8081}, "spark-worker-2": {8081}}
"""Where the services of our own image listen, as their commands say; Airflow's are its defaults."""
PORTS |= {"airflow-api-server": {8080}, "airflow-scheduler": {8974}}
INCLUDE = "./include:/opt/tidemark/include:ro"
LOGS = "airflow-logs:/opt/airflow/logs"
DATA = "data:/opt/data"
DOCS = "data-docs:/opt/data_docs"
GIVEN: dict[str, tuple[set[str], set[str], set[str]]] = {
    # service: (secrets, networks, volumes)
    "airflow-init": ({"postgres_password"}, {"database"}, set()),
    "airflow-api-server": (
        {
            "postgres_password",
            "airflow_fernet_key",
            "airflow_jwt_secret",
            "airflow_secret_key",
            "airflow_admin_password",
            "cassandra_password",
        },
        {"front", "database", "data"},
        {INCLUDE, LOGS, f"{DOCS}:ro"},
    ),
    "airflow-scheduler": (
        {"postgres_password", "redis_password", "airflow_fernet_key", "airflow_jwt_secret"},
        {"database", "broker"},
        {LOGS},
    ),
    "airflow-dag-processor": (
        {"postgres_password", "airflow_fernet_key"},
        {"database"},
        {LOGS},
    ),
    "airflow-triggerer": (
        {"postgres_password", "airflow_fernet_key", "airflow_secret_key", "cassandra_password"},
        {"database", "data"},
        {LOGS},
    ),
    "airflow-worker": (
        {"redis_password", "airflow_secret_key", "cassandra_password", "spark_secret"},
        {"front", "broker", "spark", "data"},
        {INCLUDE, LOGS, DATA, DOCS},
    ),
    "flights": ({"cassandra_password", "airflow_admin_password"}, {"front", "data"}, {INCLUDE}),
    "cassandra-init": ({"cassandra_admin_password", "cassandra_password"}, {"data"}, set()),
    "cassandra": (set(), {"data"}, {"cassandra-data:/var/lib/cassandra"}),
    "kafka": (set(), {"data"}, {"kafka-data:/var/lib/kafka/data"}),
    "spark-master": ({"spark_secret"}, {"spark"}, set()),
    "spark-worker-1": (
        {"spark_secret"},
        {"spark", "data"},
        {INCLUDE, DATA, "spark-work-1:/opt/spark-work"},
    ),
    "spark-worker-2": (
        {"spark_secret"},
        {"spark", "data"},
        {INCLUDE, DATA, "spark-work-2:/opt/spark-work"},
    ),
    "postgres": ({"postgres_password"}, {"database"}, {"postgres-data:/var/lib/postgresql/data"}),
    "redis": ({"redis_password"}, {"broker"}, set()),
    "volumes-init": (
        set(),
        set(),
        {
            LOGS,
            DATA,
            DOCS,
            "spark-work-1:/opt/spark-work-1",
            "spark-work-2:/opt/spark-work-2",
        },
    ),
}
"""What each service is given of secrets, networks and volumes, and no more."""
GIVEN_FOR_TLS = {
    "cassandra": {"tls_ca", "tls_cassandra"},
    "kafka": {"tls_ca", "tls_kafka"},
    "postgres": {"tls_postgres"},
    "redis": {"tls_ca", "tls_redis"},
    "airflow-api-server": {"tls_ca", "tls_airflow"},
    "airflow-init": {"tls_ca"},
    "airflow-scheduler": {"tls_ca"},
    "airflow-dag-processor": {"tls_ca"},
    "airflow-triggerer": {"tls_ca"},
    "airflow-worker": {"tls_ca"},
    "flights": {"tls_ca"},
    "cassandra-init": {"tls_ca"},
    "spark-worker-1": {"tls_ca"},
    "spark-worker-2": {"tls_ca"},
}
"""The secrets that docker-compose.tls.yml adds."""


@pytest.fixture(params=FILES, scope="module")
def compose(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the document, and the one with the override."""
    return load(*FILES[request.param])


def check(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a checker, whose output becomes the test's message."""
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def own(compose: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in compose["services"].items() if one["image"] == OWN}


def words_of(service: dict[str, Any]) -> list[str]:
    return words(service) if "healthcheck" in service else []


def foreign(compose: dict[str, Any]) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return each service of a public image with what is known of the image."""
    services = compose["services"].items()
    return [(name, one, IMAGES[tag(one["image"])]) for name, one in services if one["image"] != OWN]


@pytest.mark.parametrize("files", FILES.values(), ids=FILES)
def test_compose_accepts_the_files_and_what_they_merge_into(
    files: tuple[Path, ...], tmp_path: Path
) -> None:
    """The client checks them where it is installed, the Compose schema does everywhere."""
    merged = tmp_path / "docker-compose.yml"
    merged.write_text(yaml.safe_dump(load(*files)))
    schema = str(Path(sys.executable).with_name("check-jsonschema"))
    named = [str(file) for file in (*files, merged)]
    answer = check(schema, "--builtin-schema", "vendor.compose-spec", *named)
    assert answer.returncode == 0, answer.stdout
    if shutil.which("docker") and check("docker", "compose", "version").returncode == 0:
        options = [word for file in files for word in ("--file", str(file))]
        answer = check("docker", "compose", *options, "--profile", "*", "config", "--quiet")
        assert answer.returncode == 0, answer.stderr


def test_every_part_of_the_platform_is_there(compose: dict[str, Any]) -> None:
    assert {name for name, _, _ in foreign(compose)} == {"cassandra", "kafka", "postgres", "redis"}
    assert own(compose).keys() == AIRFLOW | SPARK | {"volumes-init", "cassandra-init"}


def test_each_service_has_the_secrets_networks_and_volumes_that_it_needs(
    compose: dict[str, Any],
) -> None:
    is_encrypted = "tls_ca" in compose["secrets"]
    given = {
        name: (
            set(service.get("secrets", [])),
            set(service.get("networks", [])),
            {one for one in service.get("volumes", []) if "kafka-client.properties" not in one},
        )
        for name, service in compose["services"].items()
    }
    expected = {
        name: (secrets | (GIVEN_FOR_TLS.get(name, set()) if is_encrypted else set()), *others)
        for name, (secrets, *others) in GIVEN.items()
    }
    assert given == expected
    assert compose["services"]["volumes-init"]["network_mode"] == "none"
    used = {network for _, networks, _ in GIVEN.values() for network in networks}
    assert compose["networks"].keys() == used
    # Their services call nobody outside.
    inner = {name for name, network in compose["networks"].items() if network}
    assert inner == {"database", "broker", "spark"}
    assert all(compose["networks"][name] == {"internal": True} for name in inner)


def reached(compose: dict[str, Any], name: str) -> set[str]:
    """Return the services that share a network with one of them."""
    networks = {
        other: set(service.get("networks", ["default"]))
        for other, service in compose["services"].items()
        if "network_mode" not in service
    }
    own = networks.pop(name)
    return {other for other, theirs in networks.items() if theirs & own}


def test_services_that_run_definitions_reach_what_they_need_and_not_airflows_database(
    compose: dict[str, Any],
) -> None:
    worker = reached(compose, "airflow-worker")
    assert worker >= {"airflow-api-server", "redis", "cassandra", "kafka", "spark-master"}
    assert not worker & {"postgres"}
    executors = reached(compose, "spark-worker-1")
    assert executors >= {"spark-master", "spark-worker-2", "airflow-worker", "cassandra", "kafka"}
    # They reach Airflow's API server, which asks for a login: it reads Cassandra for its page.
    assert not executors & {"postgres", "redis", "airflow-scheduler"}
    for name in ("airflow-api-server", "airflow-scheduler", "airflow-triggerer"):
        assert "postgres" in reached(compose, name)


def test_sparks_processes_are_known_by_names_of_sparks_network(compose: dict[str, Any]) -> None:
    """Of several networks Spark would take any address, which the others may not reach."""
    services = compose["services"]
    names = {}
    for service in ("airflow-worker", "spark-worker-1", "spark-worker-2"):
        [names[service]] = services[service]["networks"]["spark"]["aliases"]
        assert services[service]["environment"]["SPARK_LOCAL_HOSTNAME"] == names[service]
    assert len({*names.values(), *services}) == len(names) + len(services)


def test_cassandra_asks_for_a_password_and_for_permissions(compose: dict[str, Any]) -> None:
    options = compose["services"]["cassandra"]["environment"]["JVM_EXTRA_OPTS"].split()
    assert {
        "-Dcassandra.config.allow_system_properties=true",
        "-Dcassandra.settings.authenticator.class_name=PasswordAuthenticator",
        "-Dcassandra.settings.authorizer.class_name=CassandraAuthorizer",
    } <= set(options)
    for name in ("airflow-worker", "airflow-triggerer", "flights"):
        waited = compose["services"][name].get("depends_on", {})
        assert waited["cassandra-init"]["condition"] == "service_completed_successfully", name


def test_every_service_that_stays_is_health_checked(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert ("healthcheck" in service) == (name not in ONE_SHOT), name
        again = ("no", "on-failure:2") if name in ONE_SHOT else ("unless-stopped",)
        assert service["restart"] in again, name


def test_every_service_waits_for_what_it_needs_and_for_nothing_that_ends(
    compose: dict[str, Any],
) -> None:
    """`up --wait` takes the end of a service well if another one waits for it."""
    services = compose["services"]
    waited = {
        (other, how["condition"])
        for service in services.values()
        for other, how in service.get("depends_on", {}).items()
    }
    assert {name for name, _ in waited} <= services.keys()
    expected = "service_completed_successfully"
    assert {name for name, how in waited if how == expected} == ONE_SHOT - {"flights"}
    assert {name for name, how in waited if how != expected} <= services.keys() - ONE_SHOT


def test_versions_are_those_that_the_library_is_tested_with(compose: dict[str, Any]) -> None:
    lock = (ROOT / "spark_apps" / "tidemark" / "jars" / "jars.lock").read_text()
    services = compose["services"]
    [cassandra] = re.findall(r"^org.apache.cassandra:cassandra-all:(\S+)", lock, re.M)
    assert tag(services["cassandra"]["image"]) == f"cassandra:{cassandra}"
    [kafka] = re.findall(r"^org.apache.kafka:kafka_2.13:(\S+)", lock, re.M)
    assert tag(services["kafka"]["image"]) == f"apache/kafka:{kafka}"


def test_every_image_is_pinned_by_its_digest(compose: dict[str, Any]) -> None:
    """A tag may be moved to another image; a digest is that of one image."""
    [base] = re.findall(r"^FROM .* (\S+)$", (ROOT / "Dockerfile").read_text(), re.M)
    used = {service["image"] for _, service, _ in foreign(compose)} | {base}
    assert used == {f"{name}@{image['digest']}" for name, image in IMAGES.items()}
    assert all(re.fullmatch(r"\S+:\S+@sha256:[0-9a-f]{64}", image) for image in used)


def test_volumes_are_where_the_images_keep_their_data(compose: dict[str, Any]) -> None:
    kept: dict[str, str] = {}
    for name, service, image in foreign(compose):
        named = dict(one.split(":")[:2] for one in service.get("volumes", []) if one[0] != ".")
        assert set(named.values()) <= set(image["volumes"]), name
        kept |= dict.fromkeys(named, name)
    assert kept == {
        "cassandra-data": "cassandra",
        "kafka-data": "kafka",
        "postgres-data": "postgres",
    }
    assert kept.keys() < compose["volumes"].keys()
    logs = compose["services"]["kafka"]["environment"]["KAFKA_LOG_DIRS"]
    assert f"kafka-data:{logs}" in compose["services"]["kafka"]["volumes"]


def test_variables_are_such_as_the_images_read(compose: dict[str, Any]) -> None:
    for name, service, image in foreign(compose):
        prefix = image.get("variables_prefix", "-")
        unknown = {
            variable
            for variable in service.get("environment", {})
            if variable not in image["variables"] and not variable.startswith(prefix)
        }
        # The command itself uses it.
        used = re.findall(r"\$(\w+)", " ".join(service.get("command", [])))
        assert unknown <= set(used), name


def test_commands_keep_the_entrypoints_of_the_images(compose: dict[str, Any]) -> None:
    """A command of our own ends in the image's entrypoint, which gives up root."""
    for name, service, image in foreign(compose):
        script = service.get("entrypoint") or service.get("command")
        if script is None:
            continue
        assert script[0] in image["programs"], name
        assert image["user"]["starts_as"] == "root", name
        last = script[2].splitlines()[-1]
        assert last.startswith(f"exec {image['entrypoint'][0]} "), name
        assert image["command"][0] in [*service.get("command", []), *last.split()], name
        used = {line.split()[0] for line in script[2].splitlines()} - {"exec", "umask", "printf"}
        assert {word for word in used if "=" not in word} <= set(image["programs"]), name


def test_programs_of_health_checks_are_in_the_images(compose: dict[str, Any]) -> None:
    for name, service, image in foreign(compose):
        is_shell = service["healthcheck"]["test"][0] == "CMD-SHELL"
        programs = {"redis-cli", "grep"} if is_shell else {words(service)[0]}
        assert programs <= set(image["programs"]) & set(words(service)), name
    for name, service in own(compose).items():
        if name in ONE_SHOT:
            continue
        command = words(service)
        assert command[:2] == ["python", "-m"], name
        assert command[2] in ("embedded.container", "embedded.container.health"), name
        lacking = IMAGES[OWN_BASE]["lacks"]
        assert not set(lacking) & set(command), name


def test_health_is_asked_for_where_the_service_listens(compose: dict[str, Any]) -> None:
    for name, service in own(compose).items():
        for url in re.findall(r"(https?)://([\w-]+):(\d+)/", " ".join(words_of(service))):
            scheme, host, port = url
            assert int(port) in PORTS[name], name
            assert host in ("localhost", name), name
            secure = name == "airflow-api-server" and "tls_ca" in compose["secrets"]
            assert scheme == ("https" if secure else "http"), name


def test_addresses_lead_to_services_and_to_ports_that_they_listen_on(
    compose: dict[str, Any],
) -> None:
    """Whatever names another service by name and port, in a command or in the environment."""
    listens = {name: set(image["listens"].values()) for name, _, image in foreign(compose)} | PORTS
    named = set()
    for service in compose["services"].values():
        text = " ".join(
            [
                *map(str, service.get("environment", {}).values()),
                *service.get("command", []),
                *words_of(service),
            ]
        )
        pairs = re.findall(rf"({'|'.join(listens)}):(\d+)", text)
        pairs += re.findall(r'"host": "(?:spark://)?([\w-]+)", "port": (\d+)', text)
        named |= {(host, int(port)) for host, port in pairs}
    assert {(host, port) for host, port in named if port not in listens[host]} == set()
    assert {host for host, _ in named} >= {"kafka", "spark-master", "airflow-api-server"}
    environment = compose["services"]["airflow-worker"]["environment"]
    host, port = environment["CASSANDRA_HOST"], environment["CASSANDRA_PORT"]
    assert int(port) in listens[host]


def test_airflow_is_seen_from_this_machine_only(compose: dict[str, Any]) -> None:
    seen = {name: one["ports"] for name, one in compose["services"].items() if "ports" in one}
    assert seen == {"airflow-api-server": ["127.0.0.1:8080:8080"]}


def test_airflow_and_spark_have_one_image_and_the_same_definitions(compose: dict[str, Any]) -> None:
    """Python refuses workers of another version; both sides need the same packages and files."""
    for name, service in own(compose).items():
        assert service["build"] == ".", name
        assert service["platform"] == "linux/amd64", name
        assert service["init"] is True, name
    # The code is in the image, and nothing is installed at a start.
    text = json.dumps(compose)
    assert "./:" not in text
    assert "PIP" not in text
    assert " install " not in text.replace("install --owner", "")


@pytest.mark.parametrize(
    "setting", ["TIDEMARK_DATA_DOCS_DIR", "TIDEMARK_EXPORT_DIR", "TIDEMARK_SAVE_DIRS"]
)
def test_what_applications_write_lies_in_a_volume(compose: dict[str, Any], setting: str) -> None:
    services = compose["services"]
    where = services["airflow-worker"]["environment"][setting]
    assert where in services["volumes-init"]["command"]
    # The API server shows Data Docs.
    assert services["airflow-api-server"]["environment"][setting] == where
    mounted = [one.split(":")[1] for one in services["airflow-worker"]["volumes"]]
    assert any(where.startswith(place) for place in mounted)
    for name in ("airflow-api-server", "airflow-worker", "spark-worker-1", "spark-worker-2"):
        assert {"volumes-init", "airflow-init"} & services[name]["depends_on"].keys()


def test_spark_works_on_a_volume_of_its_own(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for number in (1, 2):
        worker = services[f"spark-worker-{number}"]
        where = worker["command"][worker["command"].index("--work-dir") + 1]
        assert f"spark-work-{number}:{where}" in worker["volumes"]
        assert worker["environment"]["SPARK_LOCAL_DIRS"] == where
        mounted = dict(one.split(":") for one in services["volumes-init"]["volumes"])
        assert mounted[f"spark-work-{number}"] in services["volumes-init"]["command"]


def test_tls_is_over_every_connection_but_sparks_own() -> None:
    services = load(BASE, TLS)["services"]
    for name in AIRFLOW - {"flights"}:
        environment = services[name]["environment"]
        assert (environment["PGSSLMODE"], environment["PGSSLROOTCERT"]) == (
            "verify-full",
            "/run/secrets/tls_ca",
        )
        assert environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"].startswith("https://")
        kafka = json.loads(environment["AIRFLOW_CONN_KAFKA_DEFAULT"])
        assert kafka["extra"] == {"security_protocol": "SSL"}
    for name in AIRFLOW | {"spark-worker-1", "spark-worker-2"}:
        assert "tls_ca" in services[name]["secrets"]
    kafka = services["kafka"]["environment"]
    protocols = dict(
        one.split(":") for one in kafka["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")
    )
    assert set(protocols.values()) == {"SSL"}
    listeners = re.findall(r"(\w+)://", kafka["KAFKA_LISTENERS"])
    assert set(listeners) == protocols.keys()
    assert "--port 0 --tls-port 6379" in services["redis"]["environment"]["REDIS_OPTIONS"]
    assert "hostssl all all all" in services["postgres"]["entrypoint"][2]
    assert "ssl=on" in services["postgres"]["command"]


def test_kafka_is_configured_without_java_key_stores() -> None:
    """The image's script wants them, and their passwords, if a listener's name ends in SSL."""
    unwanted = IMAGES["apache/kafka:4.1.1"]["wants_java_key_stores_if_advertised"]
    advertised = load(BASE, TLS)["services"]["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert unwanted not in advertised


def test_files_for_a_service_are_there_and_readable_by_all() -> None:
    for service in load(BASE, TLS)["services"].values():
        for mount in service.get("volumes", []):
            if mount.startswith("./") and "include" not in mount:
                file = ROOT / mount.split(":")[0]
                assert file.stat().st_mode & 0o044 == 0o044
