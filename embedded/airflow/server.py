"""The embedded Airflow: four processes, each stopped by its own pid.

`airflow standalone` is not used: it leaves its children behind when it is ended.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import httpx

from embedded.airflow import configuration
from embedded.errors import EmbeddedError
from embedded.machine import ports, processes, state_dir
from embedded.progress import ProgressLine
from tidemark.installation import users_files
from tidemark.user_files import journals

PORT_VARIABLE = "TIDEMARK_AIRFLOW_PORT"
JOURNAL_VARIABLE = "TIDEMARK_JOURNAL_KEYSPACE"

# No log servers: the API server reads the log files itself, and they would listen on all
# interfaces.
_ARGUMENTS = {
    "api-server": (),
    "scheduler": ("--skip-serve-logs",),
    "dag-processor": (),
    "triggerer": ("--skip-serve-logs",),
}
_MIGRATION = "migration"
_HEALTH_KEYS = ("metadatabase", "scheduler", "dag_processor", "triggerer")
_DEADLINE_S = 300.0
_POLL_S = 0.5


class Airflow:
    """One Airflow below one home directory; several homes may run at once.

    Args:
        home: Database, secrets, logs and pids.
        environment: Variables of the applications, such as `Endpoint.environment()`.
        port: The port of the UI and API; by default `TIDEMARK_AIRFLOW_PORT`, else a free one.
        pools: Pools to make or resize at each start, name to slots; by default those that
            the DAGs of the journal need.
        min_free_bytes: Free space on the disk of `home` below which Airflow is not started.
    """

    def __init__(
        self,
        home: Path,
        environment: Mapping[str, str],
        port: int | None = None,
        pools: Mapping[str, int] | None = None,
        min_free_bytes: int = state_dir.GIB,
    ) -> None:
        """Store the arguments; nothing is started or written yet."""
        self._home = home.resolve()
        self._run = self._home / "run"
        self._ports_file = self._home / "ports.json"
        self._applications = dict(environment)
        self._port = port or ports.pinned(PORT_VARIABLE)
        self._pools = dict(self._pools_of_journal() if pools is None else pools)
        self._min_free_bytes = min_free_bytes

    def start(self) -> str:
        """Start the four processes unless they run already with the same environment.

        Returns:
            The base URL, when all components are healthy and the pools exist.

        Raises:
            EmbeddedError: The disk is full, a pinned port is taken, or a process died.
        """
        with state_dir.one_starter(self._home):
            if (url := self.url()) and self._environment_is_unchanged():
                # Whoever started it may have been killed before it was ready.
                self._wait_until_healthy(ProgressLine("airflow"))
                self._make_pools()
                return url
            self.stop()
            state_dir.keep_private(self._home)
            state_dir.require_space(self._home, self._min_free_bytes)
            pinned = {"api": self._port} if self._port else {}
            port = ports.choose(self._ports_file, ("api",), pinned)["api"]
            try:
                self._launch(port)
            except BaseException:
                self.stop()
                raise
        return configuration.base_url(port)

    def stop(self) -> bool:
        """End all four processes and what they started, running tasks included.

        Returns:
            Whether any was running.
        """
        return bool(processes.stop([*_ARGUMENTS, _MIGRATION], self._run))

    def url(self) -> str | None:
        """Return the base URL; None unless all four processes run."""
        port = ports.read(self._ports_file).get("api")
        running = all(processes.running(name, self._run) for name in _ARGUMENTS)
        return configuration.base_url(port) if port and running else None

    def login(self) -> str:
        """Return who may log in and where the password is, for people."""
        file = configuration.passwords_file(self._home)
        return f"log in as {configuration.ADMIN}, the password is in {file}"

    def client(self, user: str = configuration.ADMIN) -> httpx.Client:
        """Return a client of the REST API that has logged in, for paths below `/api/v2`.

        Args:
            user: a user with a password in `configuration.passwords_file`.

        Raises:
            EmbeddedError: Airflow does not run, or refuses the password.
        """
        url = self.url()
        if url is None:
            raise EmbeddedError("Airflow does not run", str(self._home), "start it: make up")
        file = configuration.passwords_file(self._home)
        login = {"username": user, "password": json.loads(file.read_text("utf-8"))[user]}
        patience = configuration.CLIENT_PATIENCE_S
        answer = httpx.post(f"{url}/auth/token", json=login, timeout=patience)
        if answer.is_error:
            raise EmbeddedError(
                f"Airflow refuses the login of {user}: {answer.status_code}",
                str(file),
                "start Airflow anew: make down, make up",
            )
        headers = {"Authorization": f"Bearer {answer.json()['access_token']}"}
        return httpx.Client(base_url=f"{url}/api/v2", headers=headers, timeout=patience)

    def environment(self) -> dict[str, str]:
        """Return the environment of the `airflow` command line for this home."""
        port = ports.read(self._ports_file)["api"]
        return configuration.build(self._home, port, self._applications)

    def _launch(self, port: int) -> None:
        progress = ProgressLine("airflow")
        environment = self.environment()
        self._migrate(environment, progress)
        progress.update(f"starting on port {port}")
        for name, arguments in _ARGUMENTS.items():
            log = self._log(name)
            log.unlink(missing_ok=True)
            processes.start(
                name,
                [sys.executable, "-m", "airflow", name, *arguments],
                self._run,
                log=log,
                environment=environment,
                cwd=self._home,
            )
        self._wait_until_healthy(progress)
        self._make_pools()
        (self._home / "environment.sha256").write_text(self._fingerprint(), encoding="utf-8")
        progress.done(f"ready at {configuration.base_url(port)}")

    def _migrate(self, environment: Mapping[str, str], progress: ProgressLine) -> None:
        """Bring the database to this version; a marker spares the later starts the check."""
        done = self._home / "migrated"
        version = metadata.version("apache-airflow-core")
        database = self._home / "airflow.db"
        if database.exists() and done.exists() and done.read_text("utf-8") == version:
            return
        log = self._log(_MIGRATION)
        log.unlink(missing_ok=True)
        command = [sys.executable, "-m", "airflow", "db", "migrate"]
        processes.start(
            _MIGRATION, command, self._run, log=log, environment=environment, cwd=self._home
        )
        while processes.running(_MIGRATION, self._run):
            progress.update(f"preparing the database for Airflow {version}")
            time.sleep(_POLL_S)
        if processes.forget(_MIGRATION, self._run) != 0:
            raise self._failure(_MIGRATION, "failed")
        done.write_text(version, encoding="utf-8")

    def _wait_until_healthy(self, progress: ProgressLine) -> None:
        url = configuration.base_url(ports.read(self._ports_file)["api"])
        with httpx.Client(base_url=f"{url}/api/v2") as client:
            while missing := _unhealthy(client):
                self._require_all_alive()
                if progress.elapsed > _DEADLINE_S:
                    raise self._failure(missing[0], f"not healthy after {_DEADLINE_S:.0f} s")
                progress.update(f"waiting for {', '.join(missing)}")
                time.sleep(_POLL_S)

    def _require_all_alive(self) -> None:
        for name in _ARGUMENTS:
            if not processes.running(name, self._run):
                raise self._failure(name, "died while starting")

    def _failure(self, name: str, what: str) -> EmbeddedError:
        # The metadatabase has no process of its own: the API server is what asks it.
        log = self._log("api-server" if name == "metadatabase" else name.replace("_", "-"))
        return EmbeddedError(
            f"Airflow's {name} {what}",
            str(log),
            "its last lines are below",
            detail=processes.log_tail(log),
        )

    def _pools_of_journal(self) -> dict[str, int]:
        """Return the slots of the pools that the DAGs name; a run needs two cores to be of use."""
        journal = self._applications.get(JOURNAL_VARIABLE) or os.environ.get(JOURNAL_VARIABLE)
        name = f"tidemark_{journal or 'pekko'}"
        projections = max(1, (os.cpu_count() or 1) // 2)
        pools = {name: 1, f"{name}_projections": projections}
        configured = self._applications.get(journals.FILE) or os.environ.get(journals.FILE)
        for other in journals.names(Path(configured or users_files("journals.yaml"))):
            pools |= {f"tidemark.{other}": 1, f"tidemark.{other}.projections": projections}
        return pools

    def _make_pools(self) -> None:
        with self.client() as client:
            for name, slots in self._pools.items():
                pool = {"slots": slots, "description": "set at start", "include_deferred": False}
                answer = client.patch(f"/pools/{name}", json={"pool": name, **pool})
                if answer.status_code == httpx.codes.NOT_FOUND:
                    answer = client.post("/pools", json={"name": name, **pool})
                answer.raise_for_status()

    def _environment_is_unchanged(self) -> bool:
        """Return whether the running processes have the present environment."""
        known = self._home / "environment.sha256"
        return known.exists() and known.read_text("utf-8") == self._fingerprint()

    def _fingerprint(self) -> str:
        settings = configuration.settings(self._home, ports.read(self._ports_file)["api"])
        pools = json.dumps(self._pools, sort_keys=True)
        ours = {**settings, **self._applications, "pools": pools}
        return hashlib.sha256(json.dumps(ours, sort_keys=True).encode()).hexdigest()

    def _log(self, name: str) -> Path:
        return self._home / "logs" / f"{name}.log"


def _unhealthy(client: httpx.Client) -> list[str]:
    try:
        health = client.get("/monitor/health").json()
    except (httpx.HTTPError, ValueError):
        return ["api-server", *_HEALTH_KEYS]
    return [key for key in _HEALTH_KEYS if (health.get(key) or {}).get("status") != "healthy"]
