"""Command line of the embedded servers: `python -m embedded --help`."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from embedded import applications
from embedded.airflow.server import Airflow
from embedded.cassandra.server import Cassandra
from embedded.errors import EmbeddedError
from embedded.kafka.server import Kafka
from embedded.machine import jars, processes, secrets_file
from embedded.paths import AIRFLOW_HOME, CASSANDRA_HOME, KAFKA_HOME, STATE
from embedded.spark import worker_packages
from tidemark.jars.fetch import OF_SPARK

_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Of commands that pass their arguments on to a program, `--help` included."""

app = typer.Typer(
    help="The embedded Cassandra, Kafka and Airflow.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command()
def cassandra() -> None:
    """Start Cassandra only and leave it running."""
    endpoint = Cassandra(CASSANDRA_HOME).start()
    typer.echo(f"Cassandra is at {endpoint.host}:{endpoint.port}")


@app.command()
def kafka() -> None:
    """Start Kafka only and leave it running."""
    typer.echo(f"Kafka is at {Kafka(KAFKA_HOME).start()}")


@app.command()
def up() -> None:
    """Start Cassandra, Kafka and Airflow, leave them running and print where they are."""
    node, broker = Cassandra(CASSANDRA_HOME), Kafka(KAFKA_HOME)
    with ExitStack() as started:
        if node.endpoint() is None:
            started.callback(node.stop)
        endpoint = node.start()
        if broker.address() is None:
            started.callback(broker.stop)
        address = broker.start()
        server = Airflow(AIRFLOW_HOME, applications.environment(endpoint, address))
        url = server.start()
        # All of them are there: nothing is to be stopped.
        started.pop_all()
    typer.echo(f"Cassandra is at {endpoint.host}:{endpoint.port}")
    typer.echo(f"Kafka is at {address}")
    typer.echo(f"Airflow is at {url}: {server.login()}")


@app.command()
def demo(
    months: Annotated[
        int, typer.Option(min=1, max=12, envvar="DEMO_MONTHS", help="Months of 2013 to run over.")
    ] = 1,
) -> None:
    """Run the main job over the flights of 2013 and show what came of it."""
    # Only here: the demo loads the library with Spark and pandas, which the servers do without.
    from embedded.demo.steps import run
    from tidemark.errors import TidemarkError

    try:
        run(months)
    except TidemarkError as error:
        typer.echo(f"demo: error: {error}", err=True)
        raise typer.Exit(1) from error


@app.command()
def status() -> None:
    """Show each server's state, address and pid."""
    endpoint = Cassandra(CASSANDRA_HOME).endpoint()
    typer.echo(f"Cassandra: {f'{endpoint.host}:{endpoint.port}' if endpoint else 'stopped'}")
    typer.echo(f"Kafka: {Kafka(KAFKA_HOME).address() or 'stopped'}")
    server = Airflow(AIRFLOW_HOME, {})
    url = server.url()
    typer.echo(f"Airflow: {f'{url}, {server.login()}' if url else 'stopped'}")
    for run_directory, names in processes.all_recorded(STATE).items():
        for name in names:
            process = processes.running(name, run_directory)
            typer.echo(f"  {name}: {f'pid {process.pid}' if process else 'ended'}")


@app.command()
def down() -> None:
    """Stop all that was started under the state directory."""
    for run_directory, names in processes.all_recorded(STATE).items():
        for name in processes.stop(names, run_directory):
            typer.echo(f"stopped {name}")


@app.command()
def env() -> None:
    """Print `export` lines for the applications and for Airflow's commands: eval "$(... env)"."""
    variables = _applications()
    server = Airflow(AIRFLOW_HOME, variables)
    if server.url() is not None:
        variables |= server.environment()
    for name, value in variables.items():
        if os.environ.get(name) != value:
            typer.echo(f"export {name}={shlex.quote(value)}")


@app.command(context_settings=_PASSED_ON)
def cql(context: typer.Context) -> None:
    """Open cqlsh on the embedded Cassandra, or run what -e or -f gives it."""
    variables = _applications()
    host, _, port = variables["TIDEMARK_CASSANDRA_HOSTS"].partition(":")
    name = variables["TIDEMARK_CASSANDRA_USERNAME"]
    login = STATE / "cqlsh.credentials"
    login.unlink(missing_ok=True)
    text = f"[PlainTextAuthProvider]\nusername = {name}\npassword = "
    secrets_file.keep(login, lambda: f"{text}{variables['TIDEMARK_CASSANDRA_PASSWORD']}\n")
    program = str(Path(sys.executable).with_name("cqlsh"))
    arguments = [program, "--credentials", str(login), "--username", name, *context.args]
    sys.exit(subprocess.call([*arguments, host, port]))


@app.command(context_settings=_PASSED_ON)
def airflow(context: typer.Context) -> None:
    """Run a command of Airflow on the embedded one, such as `backfill create`."""
    variables = _airflow()
    command = [sys.executable, "-m", "airflow", *context.args]
    sys.exit(subprocess.call(command, env=variables))


def _applications() -> dict[str, str]:
    endpoint = Cassandra(CASSANDRA_HOME).endpoint()
    if endpoint is None:
        raise EmbeddedError("Cassandra does not run", str(CASSANDRA_HOME), "start it: make up")
    return applications.environment(endpoint, Kafka(KAFKA_HOME).address())


def _airflow() -> dict[str, str]:
    server = Airflow(AIRFLOW_HOME, _applications())
    if server.url() is None:
        raise EmbeddedError("Airflow does not run", str(AIRFLOW_HOME), "start it: make up")
    return server.environment()


@app.command(name="jars")
def fetch_jars() -> None:
    """Fetch the jars of Cassandra and of Spark (connector, Kafka source and Iceberg), checked."""
    for group in ("cassandra", *OF_SPARK):
        typer.echo(f"{group}: {len(jars.fetch(group))} jars")


@app.command(name="worker-packages")
def make_worker_packages(
    also: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="Further packages of requirements.lock."),
    ] = None,
) -> None:
    """Make the archive for TIDEMARK_SPARK_WORKER_PACKAGES, for workers whose Python has none."""
    archive = worker_packages.build(also=tuple(also or ()))
    typer.echo(f"{archive}: {archive.stat().st_size / 1e6:.0f} MB")


@app.command()
def lock_jars() -> None:
    """Resolve the jars anew and write spark_apps/tidemark/jars/jars.lock."""
    jars.lock()


def _end(signal_number: int, frame: FrameType | None) -> None:
    sys.exit(128 + signal_number)


def main() -> None:
    """Run a command; a foreseen error is one line and exit status 1."""
    # Ended from outside as by Ctrl-C: what this call was starting is taken down on the way out.
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    try:
        app()
    except EmbeddedError as error:
        typer.echo(f"embedded: error: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
