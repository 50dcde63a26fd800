"""Secrets of docker-compose.yml: with any character, on no command line, read by who needs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection
from celery import Celery
from cryptography import x509
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from kombu.utils.url import parse_url
from pyspark.sql import SparkSession
from redis import ConnectionPool, SSLConnection
from sqlalchemy.engine import make_url

from tests.compose.document import BASE, ROOT, TLS, load
from tidemark_airflow.environment.connections import cassandra_environment

NASTY = [
    "plain",
    "@/%:?#[]&=+",
    "%40 %25 %s %(x)s",
    "$HOME ${HOME} $$ $(id) `id`",
    '"\'\\ {"a": 1} \\x41 \\',
    " blanks  at both ends ",
    "~root",
    "pässwörd € 密码 🔑",
    "-n --help",
    "a;b|c&d>e<f*g?h!",
]
EVERYTHING = [
    "postgres_password",
    "redis_password",
    "spark_secret",
    "cassandra_admin_password",
    "cassandra_password",
    "airflow_fernet_key",
    "airflow_jwt_secret",
    "airflow_secret_key",
    "airflow_admin_password",
]
SHOW = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
FILES = {"plain": (BASE,), "tls": (BASE, TLS)}

Entrypoint = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def entrypoint(tmp_path: Path) -> Entrypoint:
    """Return a function that runs the image's entrypoint with some secrets, as a process."""
    directory = tmp_path / "secrets"
    directory.mkdir()

    def run(*command: str, **secrets: str | bytes) -> subprocess.CompletedProcess[str]:
        for name, value in secrets.items():
            content = value if isinstance(value, bytes) else f"{value}\n".encode()
            (directory / name).write_bytes(content)
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            "SECRETS_DIR": str(directory),
            "AIRFLOW_HOME": str(tmp_path),
            "CASSANDRA_HOST": "one,two",
            "CASSANDRA_PORT": "9042",
            "CASSANDRA_USERNAME": "tide mark",
        }
        return subprocess.run(
            [sys.executable, "-m", "embedded.container", *command],
            env=environment, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8",
        )  # fmt: skip

    return run


def variables(answer: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert answer.returncode == 0, answer.stderr
    found: dict[str, str] = json.loads(answer.stdout)
    return found


@pytest.mark.parametrize("password", NASTY)
def test_readers_of_a_password_get_it_as_it_was_written(
    entrypoint: Entrypoint, password: str, tmp_path: Path
) -> None:
    found = variables(
        entrypoint(
            *SHOW,
            postgres_password=password,
            redis_password=password,
            cassandra_password=password,
            airflow_admin_password=password,
        )
    )
    # Airflow replaces variables and `~` in what it reads from its environment.
    url = found["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    assert os.path.expanduser(os.path.expandvars(url)) == url
    database = make_url(url)
    assert database.password == password
    assert (database.username, database.host, database.port) == ("airflow", "postgres", 5432)
    assert database.database == "airflow"
    broker = found["AIRFLOW__CELERY__BROKER_URL"]
    assert os.path.expanduser(os.path.expandvars(broker)) == broker
    assert parse_url(broker)["password"] == password
    assert ConnectionPool.from_url(broker).connection_kwargs["password"] == password
    assert parse_url(broker)["hostname"] == "redis"
    results = found["AIRFLOW__CELERY__RESULT_BACKEND"]
    assert os.path.expanduser(os.path.expandvars(results)) == results
    assert Celery(backend=results).backend.connparams["password"] == password
    connection = Connection.from_json(found["AIRFLOW_CONN_CASSANDRA_DEFAULT"])
    assert (connection.login, connection.password) == ("tide mark", password)
    told = cassandra_environment(connection)
    assert told == {name: found[name] for name in told}
    assert told["TIDEMARK_CASSANDRA_HOSTS"] == "one:9042,two:9042"
    users = Path(found["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
    assert json.loads(users.read_text()) == {"admin": password}
    assert stat.S_IMODE(users.stat().st_mode) == 0o600


def test_airflow_itself_reads_what_the_entrypoint_gives_it(entrypoint: Entrypoint) -> None:
    """Asked of its configuration, which replaces and calls commands, and by a login."""
    secret = "".join(NASTY)
    names = [("database", "sql_alchemy_conn"), ("api_auth", "jwt_secret"), ("api", "secret_key")]
    code = (
        "import json; from airflow.configuration import conf;"
        "from airflow.api_fastapi.app import init_auth_manager;"
        "from airflow.api_fastapi.auth.managers.simple.datamodels.login import LoginBody;"
        "from airflow.api_fastapi.auth.managers.simple.services import login;"
        "init_auth_manager();"
        f"asked = LoginBody(username='admin', password={secret!r});"
        "login.SimpleAuthManagerLogin.create_token(asked);"
        f"print(json.dumps([conf.get(*name) for name in {names!r}]))"
    )
    answer = entrypoint(
        sys.executable, "-c", code,
        postgres_password=secret, airflow_jwt_secret=secret, airflow_secret_key=secret,
        airflow_admin_password=secret,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    url, *texts = json.loads(answer.stdout.splitlines()[-1])
    assert make_url(url).password == secret
    assert [text.rstrip("\n") for text in texts] == [secret] * 2


def test_with_certificates_redis_is_spoken_to_by_tls(entrypoint: Entrypoint) -> None:
    password = "@/%:\"'$ ü"
    found = variables(entrypoint(*SHOW, redis_password=password, tls_ca=authority()))
    broker = parse_url(found["AIRFLOW__CELERY__BROKER_URL"])
    assert (broker["transport"], broker["password"]) == ("rediss", password)
    assert broker["ssl"]["ssl_cert_reqs"] == ssl.CERT_REQUIRED
    assert broker["ssl"]["ssl_check_hostname"] is True
    assert Path(broker["ssl"]["ssl_ca_certs"]).read_bytes() == authority()
    results = Celery(backend=found["AIRFLOW__CELERY__RESULT_BACKEND"]).backend.connparams
    assert issubclass(results["connection_class"], SSLConnection)
    assert results["ssl_cert_reqs"] == ssl.CERT_REQUIRED
    assert results["ssl_check_hostname"]
    assert results["ssl_ca_certs"] == broker["ssl"]["ssl_ca_certs"]


@pytest.mark.parametrize("secret", NASTY)
def test_spark_reads_its_secret_from_a_file_of_its_own(
    entrypoint: Entrypoint, spark: SparkSession, secret: str
) -> None:
    """Asked of Spark's own reader, which leaves out blanks at both ends."""
    answer = entrypoint(*SHOW, spark_secret=secret)
    found = variables(answer)
    assert not [name for name, value in found.items() if secret in value and name != "PATH"]
    file = Path(found["SPARK_CONF_DIR"], "spark-defaults.conf")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    reader: Any = spark._jvm
    read = reader.org.apache.spark.util.Utils.getPropertiesFromFile(str(file))
    assert read.apply("spark.authenticate.secret") == secret.strip()
    for option in ("spark.authenticate", "spark.network.crypto.enabled"):
        assert read.apply(option) == "true"
    assert read.apply("spark.network.crypto.saslFallback") == "false"


def test_files_of_the_entrypoint_are_whole_at_any_moment(
    entrypoint: Entrypoint, tmp_path: Path
) -> None:
    """A health check runs the entrypoint while the service reads what it wrote."""
    secrets: dict[str, str | bytes] = {"spark_secret": "a" * 64, "tls_ca": authority()}
    found = variables(entrypoint(*SHOW, airflow_admin_password="secret", **secrets))
    files = [
        Path(found["SPARK_CONF_DIR"], "spark-defaults.conf"),
        Path(found["TIDEMARK_CASSANDRA_SSL_TRUSTSTORE"]),
        Path(found["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]),
    ]
    before = [file.stat().st_ino for file in files]
    with ExitStack() as opened:
        # As long as a file is open, its number is given to no other.
        for file in files:
            opened.enter_context(file.open())
        entrypoint(*SHOW)
        assert not set(before) & {file.stat().st_ino for file in files}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert {file for file in tmp_path.rglob("*") if file.is_file()} == {
        *files,
        *(tmp_path / "secrets" / name for name in ("airflow_admin_password", *secrets)),
    }


@cache
def authority() -> bytes:
    """Return the certificate of an authority, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
    start = datetime(2020, 1, 1, tzinfo=UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    made = made.public_key(key.public_key()).serial_number(1).not_valid_before(start)
    made = made.not_valid_after(start + timedelta(days=36500))
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_with_certificates_cassandras_is_checked_against_a_store_that_java_reads(
    entrypoint: Entrypoint,
) -> None:
    found = variables(entrypoint(*SHOW, tls_ca=authority()))
    assert found["TIDEMARK_CASSANDRA_SECURITY_PROTOCOL"] == "SSL"
    store = Path(found["TIDEMARK_CASSANDRA_SSL_TRUSTSTORE"])
    password = found["TIDEMARK_CASSANDRA_SSL_TRUSTSTORE_PASSWORD"]
    read = pkcs12.load_pkcs12(store.read_bytes(), password.encode())
    [one] = read.additional_certs
    assert one.certificate == x509.load_pem_x509_certificate(authority())
    answer = entrypoint(*SHOW, tls_ca=b"no certificates")
    assert answer.returncode == 2
    assert "holds no certificates in PEM" in answer.stderr


def test_a_container_has_only_what_its_secrets_make(entrypoint: Entrypoint) -> None:
    found = variables(entrypoint(*SHOW))
    assert {name for name in found if name.startswith(("AIRFLOW_", "TIDEMARK_"))} == {
        "AIRFLOW_HOME"
    }


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "a secret is empty"),
        (b"\n", "a secret is empty"),
        (b"two\nlines", "several lines"),
        (b"of Windows\r\n", "the line ends of Windows"),
        (b"\xff\xfe", "no file of UTF-8 text"),
    ],
)
def test_a_secret_that_cannot_be_used_is_refused_in_one_line(
    entrypoint: Entrypoint, content: bytes, problem: str
) -> None:
    answer = entrypoint(*SHOW, postgres_password=content)
    assert answer.returncode == 2
    [line] = answer.stderr.splitlines()
    assert problem in line
    assert "postgres_password" in line
    assert "two" not in line


def test_cassandras_users_are_not_made_without_their_passwords(entrypoint: Entrypoint) -> None:
    make = (sys.executable, "-m", "embedded.container.cassandra_users")
    answer = entrypoint(*make, cassandra_password="secret")
    assert answer.returncode == 1
    [line] = answer.stderr.splitlines()
    assert line.startswith("cassandra-init: error: ")
    assert "cassandra_admin_password" in line


def test_the_entrypoint_becomes_its_command(entrypoint: Entrypoint) -> None:
    assert entrypoint("sh", "-c", "exit 7").returncode == 7
    assert entrypoint("sh", "-c", "umask").stdout.strip() == "0002"
    for command in ([], ["no-such-program"]):
        answer = entrypoint(*command)
        assert answer.returncode == 2
        assert len(answer.stderr.splitlines()) == 1


@pytest.mark.parametrize("password", NASTY)
def test_redis_takes_the_password_from_a_file_of_its_own(password: str, tmp_path: Path) -> None:
    r"""In double quotes Redis reads \xNN as a byte, whatever it is."""
    script = load(BASE)["services"]["redis"]["command"][2]
    secret = tmp_path / "secret"
    secret.write_text(f"{password}\n", encoding="utf-8")
    before, rest = script.split("chown")
    assert rest.splitlines()[1].startswith("exec docker-entrypoint.sh redis-server /run/redis.conf")
    before = before.replace("/run/secrets/redis_password", str(secret))
    before = before.replace("/run/redis.conf", str(tmp_path / "redis.conf"))
    subprocess.run(["sh", "-ec", before], check=True)
    configuration = (tmp_path / "redis.conf").read_text()
    found = re.fullmatch(r'requirepass "((?:\\x[0-9a-f]{2})+)"\n', configuration)
    assert found
    assert bytes.fromhex(found[1].replace("\\x", "")).decode() == password
    assert stat.S_IMODE((tmp_path / "redis.conf").stat().st_mode) == 0o600


@pytest.mark.parametrize("files", FILES.values(), ids=FILES)
def test_no_document_has_a_secret(files: tuple[Path, ...]) -> None:
    """Secrets are files, and neither the environment nor a command has one."""
    document = load(*files)
    for name, secret in document["secrets"].items():
        assert re.fullmatch(r"\./(secrets|tls)/[a-z_.-]+", secret["file"]), name
    for service in document["services"].values():
        assert set(service.get("secrets", [])) <= document["secrets"].keys()
        named = {key for key in service.get("environment", {}) if re.search("PASSWORD|_KEY$", key)}
        assert named <= {"POSTGRES_PASSWORD_FILE", "AIRFLOW__API__SSL_KEY"}


def test_variables_of_the_files_are_those_of_the_example_and_none_is_a_secret() -> None:
    text = "".join(file.read_text() for file in (BASE, TLS))
    used = set(re.findall(r"(?<!\$)\$\{(\w+):-", text))
    example = (ROOT / ".env.example").read_text()
    assert used == set(re.findall(r"^# ([A-Z_]+)=", example, re.M))
    assert {name for name in used if re.search("PASSWORD|SECRET(?!S_DIR)|_KEY$", name)} == set()


def test_every_secret_of_the_file_is_given_to_some_service() -> None:
    document = load(BASE)
    services = document["services"]
    given = {secret for service in services.values() for secret in service.get("secrets", [])}
    assert sorted(given) == sorted(document["secrets"]) == sorted(EVERYTHING)
    assert (
        "/run/secrets/postgres_password"
        in (services["postgres"]["environment"]["POSTGRES_PASSWORD_FILE"])
    )


def test_the_script_writes_what_is_missing_and_leaves_the_rest(tmp_path: Path) -> None:
    directory = tmp_path / "secrets"
    script = str(ROOT / "compose" / "secrets")
    directory.mkdir()
    (directory / "redis_password").write_text("my own $word\n")
    subprocess.run([script, str(directory)], check=True, capture_output=True)
    first = {file.name: file.read_bytes() for file in directory.iterdir()}
    subprocess.run([script, str(directory)], check=True, capture_output=True)
    assert {file.name: file.read_bytes() for file in directory.iterdir()} == first
    assert sorted(first) == sorted(EVERYTHING)
    assert first["redis_password"] == b"my own $word\n"
    Fernet(first["airflow_fernet_key"])
    # HS512 wants 64 bytes.
    assert len(first["airflow_jwt_secret"]) >= 64
    assert len(set(first.values())) == len(first)
    assert min(len(text) for name, text in first.items() if name != "redis_password") >= 16
    # The containers' users are others: only the directory keeps others of this machine out.
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) & 0o044 for file in directory.iterdir()} == {0o044}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes them")
def test_certificates_are_for_the_services_and_of_their_authority(tmp_path: Path) -> None:
    directory = tmp_path / "tls"
    script = str(ROOT / "compose" / "certificates")
    subprocess.run([script, str(directory)], check=True, capture_output=True)
    written = {file.name: file.read_bytes() for file in directory.glob("*.pem")}
    subprocess.run([script, str(directory)], check=True, capture_output=True)
    assert {file.name: file.read_bytes() for file in directory.glob("*.pem")} == written
    asked = load(BASE, TLS)["secrets"]
    named = {Path(one["file"]).name for key, one in asked.items() if key.startswith("tls_")}
    assert named == written.keys()
    services = load(BASE, TLS)["services"]
    for file in named - {"ca.pem"}:
        # As the services' own libraries do: key and certificate of one file, then the handshake.
        service = file.removesuffix(".pem")
        assert service in services
        assert handshake(directory / file, directory / "ca.pem", service) == service
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(directory / file, directory / "ca.pem", "another")
        assert b"-----BEGIN PRIVATE KEY-----" in written[file]
    assert stat.S_IMODE((directory / "ca.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def handshake(certificate: Path, authority: Path, name: str) -> Any:
    """Return the common name that a client sees, once it has checked certificate and name."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, certificate)
    asking = ssl.create_default_context(cafile=authority)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    client = asking.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(3):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    peer: Any = client.getpeercert()
    return dict(pair for [pair] in peer["subject"])["commonName"]
