"""Command line of the embedded servers: `python -m embedded --help`."""

from __future__ import annotations

import shlex
import signal
import sys
from types import FrameType
from typing import Annotated

import typer

from embedded import applications
from embedded.airflow.server import Airflow
from embedded.cassandra.server import Cassandra
from embedded.errors import EmbeddedError
from embedded.machine import jars, processes
from embedded.paths import AIRFLOW_HOME, CASSANDRA_HOME, STATE

app = typer.Typer(
    help="The embedded Cassandra and Airflow.", no_args_is_help=True, pretty_exceptions_enable=False
)


@app.command()
def cassandra() -> None:
    """Start Cassandra only and leave it running."""
    endpoint = Cassandra(CASSANDRA_HOME).start()
    typer.echo(f"Cassandra is at {endpoint.host}:{endpoint.port}")


@app.command()
def up() -> None:
    """Start Cassandra and Airflow, leave both running and print Airflow's address."""
    node = Cassandra(CASSANDRA_HOME)
    was_running = node.endpoint() is not None
    endpoint = node.start()
    try:
        url = Airflow(AIRFLOW_HOME, applications.environment(endpoint)).start()
    except BaseException:
        if not was_running:
            node.stop()
        raise
    typer.echo(f"Cassandra is at {endpoint.host}:{endpoint.port}")
    typer.echo(f"Airflow is at {url}")


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
    typer.echo(f"Airflow: {Airflow(AIRFLOW_HOME, {}).url() or 'stopped'}")
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
    """Print `export` lines for running the applications by hand: eval "$(... env)"."""
    endpoint = Cassandra(CASSANDRA_HOME).endpoint()
    if endpoint is None:
        raise EmbeddedError("Cassandra does not run", str(CASSANDRA_HOME), "start it: make up")
    for name, value in applications.environment(endpoint).items():
        typer.echo(f"export {name}={shlex.quote(value)}")


@app.command(name="jars")
def fetch_jars() -> None:
    """Fetch the jars of Cassandra and of the Spark connector, checked."""
    for group in ("cassandra", "spark"):
        typer.echo(f"{group}: {len(jars.fetch(group))} jars")


@app.command()
def lock_jars() -> None:
    """Resolve the jars anew and write embedded/machine/jars.lock."""
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
