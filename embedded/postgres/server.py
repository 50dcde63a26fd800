"""The embedded PostgreSQL: the real server as a child process with its own port and data."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from embedded.errors import EmbeddedError
from embedded.machine import ports, processes, secrets_file, state_dir
from embedded.machine.readiness import Readiness
from embedded.postgres.programs import Account, programs
from embedded.progress import ProgressLine

PORT_VARIABLE = "TIDEMARK_POSTGRES_PORT"
CONNECTION = "EMBEDDED"
"""The name of the connection to the embedded server, in upper case as in its variables."""

_NAME = "postgres"
_USERNAME = "tidemark"
_DATABASE = "tidemark"
_FIRST_DATABASE = "postgres"
_ANSWER_S = 2


@dataclass(frozen=True)
class PostgresEndpoint:
    """Where the server listens, and who may log in."""

    host: str
    port: int
    username: str
    database: str
    password: str = field(repr=False)

    @property
    def url(self) -> str:
        """The URL, without the password."""
        return f"postgresql://{self.username}@{self.host}:{self.port}/{self.database}"

    def session(self, database: str | None = None) -> psycopg.Connection:
        """Open a session, by default in the applications' database; each statement commits."""
        return psycopg.connect(
            host=self.host,
            port=self.port,
            user=self.username,
            password=self.password,
            dbname=database or self.database,
            connect_timeout=_ANSWER_S,
            autocommit=True,
        )

    def environment(self, connection: str = CONNECTION) -> dict[str, str]:
        """Return the variables of the connection `embedded`, or of one with another name."""
        prefix = f"TIDEMARK_POSTGRES_{connection}"
        return {f"{prefix}_URL": self.url, f"{prefix}_PASSWORD": self.password}


class Postgres:
    """One PostgreSQL server below one home directory.

    Args:
        home: Data, logs, password and pid of the server.
        port: The port; by default `TIDEMARK_POSTGRES_PORT`, else a free one.
        min_free_bytes: Free space on the disk of `home` below which the server is not started.
        options: Options of postgresql.conf.
    """

    def __init__(
        self,
        home: Path,
        port: int | None = None,
        min_free_bytes: int = state_dir.GIB,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Store the arguments; nothing is started or written yet."""
        self._home = home.resolve()
        self._run = self._home / "run"
        self._ports_file = self._home / "ports.json"
        self._port = port or ports.pinned(PORT_VARIABLE)
        self._min_free_bytes = min_free_bytes
        self._options = options or {}
        self._account = Account.choose()

    def start(self) -> PostgresEndpoint:
        """Start the server unless it runs already, and return once a login succeeds.

        Whatever ends the call early, Ctrl-C included, no process is left behind.

        Raises:
            EmbeddedError: The disk is full, the pinned port is taken, or the server died.
        """
        with state_dir.one_starter(self._home):
            if running := self.endpoint():
                # Whoever started it may have been killed before it was ready.
                self._readiness(running).wait(ProgressLine(_NAME))
                return running
            state_dir.require_space(self._home, self._min_free_bytes)
            chosen = ports.choose(
                self._ports_file, ("clients",), {"clients": self._port} if self._port else {}
            )
            progress = ProgressLine(_NAME)
            progress.update(f"starting on port {chosen['clients']}")
            self._prepare()
            try:
                return self._launch(chosen["clients"], progress)
            except BaseException:
                self.stop()
                raise

    def stop(self) -> bool:
        """End the server in order: SIGTERM, and SIGKILL if it has not ended after a minute.

        Returns:
            Whether it was running.
        """
        return bool(processes.stop([_NAME], self._run))

    def endpoint(self) -> PostgresEndpoint | None:
        """Return where the server listens; None when it does not run."""
        port = ports.read(self._ports_file).get("clients")
        if port is None or not processes.running(_NAME, self._run):
            return None
        return PostgresEndpoint(ports.HOST, port, _USERNAME, _DATABASE, self._password())

    def psql(self) -> str:
        """Return the path of the server's shell."""
        return str(programs(self._account) / "psql")

    @property
    def _data(self) -> Path:
        return self._account.reachable(self._home) / "data"

    @property
    def _log(self) -> Path:
        return self._home / "logs" / "server.log"

    def _password(self) -> str:
        return secrets_file.keep(self._home / "password")

    def _prepare(self) -> None:
        """Make the data directory, unless an earlier start has."""
        self._data.parent.mkdir(parents=True, exist_ok=True)
        if not (self._home / "password").exists():
            # Data outside of a home that was deleted: nobody can log in to it.
            shutil.rmtree(self._data, ignore_errors=True)
        if (self._data / "PG_VERSION").exists():
            return
        self._data.mkdir(exist_ok=True)
        self._data.chmod(0o700)
        self._account.own(self._data)
        # Mode 0600 from its first byte on; initdb's user must be able to open it.
        with tempfile.NamedTemporaryFile() as password_file:
            password_file.write(self._password().encode())
            password_file.flush()
            self._account.own(Path(password_file.name))
            command = [
                *(programs(self._account) / "initdb", "--pgdata", self._data),
                *(f"--username={_USERNAME}", f"--pwfile={password_file.name}"),
                *("--auth=scram-sha-256", "--locale=C", "--encoding=UTF8"),
            ]
            ended = subprocess.run(
                [str(part) for part in command],
                capture_output=True,
                cwd="/",
                env=self._environment(),
                **processes.as_user(self._account.name),
            )
        if ended.returncode:
            raise EmbeddedError(
                "PostgreSQL's data directory cannot be made",
                str(self._data),
                "its last lines are below",
                detail="\n".join(ended.stderr.decode("utf-8", "replace").splitlines()[-15:]),
            )

    def _launch(self, port: int, progress: ProgressLine) -> PostgresEndpoint:
        self._log.unlink(missing_ok=True)
        options = {
            "listen_addresses": ports.HOST,
            "port": str(port),
            # Only clients that know the password, none by a socket of the file system.
            "unix_socket_directories": "",
            **self._options,
        }
        command: list[str | Path] = [
            *(programs(self._account) / "postgres", "-D", self._data),
            *(f"--{name}={value}" for name, value in options.items()),
        ]
        processes.start(
            _NAME,
            command,
            self._run,
            log=self._log,
            environment=self._environment(),
            cwd=Path("/"),
            user=self._account.name,
        )
        endpoint = PostgresEndpoint(ports.HOST, port, _USERNAME, _DATABASE, self._password())
        self._readiness(endpoint).wait(progress)
        self._make_database(endpoint)
        progress.done(f"ready on {ports.HOST}:{port}")
        return endpoint

    def _readiness(self, endpoint: PostgresEndpoint) -> Readiness:
        def answers() -> bool:
            try:
                endpoint.session(_FIRST_DATABASE).close()
            except psycopg.OperationalError:
                return False
            return True

        return Readiness(_NAME, "PostgreSQL", self._run, "a login", answers, lambda: self._log)

    def _make_database(self, endpoint: PostgresEndpoint) -> None:
        with endpoint.session(_FIRST_DATABASE) as session:
            found = session.execute(
                "SELECT 1 FROM pg_database WHERE datname = %s", [endpoint.database]
            ).fetchone()
            if not found:
                session.execute(f'CREATE DATABASE "{endpoint.database}"')

    def _environment(self) -> dict[str, str]:
        return {name: os.environ[name] for name in ("PATH", "TZ") if name in os.environ}
