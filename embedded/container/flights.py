"""The first run of the chain in the containers: the demo's flights, through Airflow and Spark.

It loads the flights, lets Airflow run the DAG `chain`, and compares the read model
with the CSV. The ledger says what is done: run again, it does no work twice.
"""

from __future__ import annotations

import os
import ssl
from typing import Annotated

import httpx
import typer

from embedded.container.environment import ADMIN
from embedded.container.secrets import Secrets
from embedded.demo import summary
from embedded.demo.steps import CHAIN, Steps, create_read_models, run_application
from embedded.errors import EmbeddedError
from embedded.progress import ProgressLine
from examples.flights.plan import load_window
from tidemark.cassandra.control import Control
from tidemark.errors import TidemarkError
from tidemark.settings import Settings

_PATIENCE_S = 60.0


def main(
    months: Annotated[int, typer.Option(min=1, max=12, help="Months of 2013 to run over.")] = 1,
    airflow: Annotated[
        str, typer.Option(envvar="FLIGHTS_AIRFLOW_URL", help="The address of Airflow's API server.")
    ] = "http://airflow-api-server:8080",
) -> None:
    """Run the chain over the flights of 2013, and show what came of it."""
    try:
        run(months, airflow)
    except (EmbeddedError, TidemarkError) as error:
        typer.echo(f"flights: error: {error}", err=True)
        raise typer.Exit(1) from error


def run(months: int, airflow: str) -> None:
    """Load the flights, run the chain, compare.

    Raises:
        EmbeddedError: the login is refused, a run failed, or the read model disagrees.
    """
    settings = Settings.load()
    run_application("examples/load_flights.py", os.environ, "--months", str(months))
    window = load_window(months)
    with Control(settings) as control, _client(airflow) as client:
        create_read_models(control, settings)
        steps = Steps(control, settings, client, window)
        steps.unpause(CHAIN)
        steps.chain()
        ProgressLine("flights").done("all steps are done")
        agrees = summary.show(control, settings, window)
    if not agrees:
        raise EmbeddedError("the read model disagrees with the CSV", "above", "please report this")


def _client(airflow: str) -> httpx.Client:
    """Return a client of Airflow's API that is logged in as its admin."""
    secrets = Secrets()
    certificates = secrets.path("tls_ca")
    verify = ssl.create_default_context(cafile=certificates) if certificates else True
    login = {"username": ADMIN, "password": secrets.text("airflow_admin_password")}
    with httpx.Client(base_url=airflow, verify=verify, timeout=_PATIENCE_S) as server:
        answer = server.post("/auth/token", json=login)
    if answer.is_error:
        raise EmbeddedError(
            f"Airflow refuses the login of {ADMIN}: {answer.status_code}",
            airflow,
            "check the secret airflow_admin_password, and start the API server anew after a change",
        )
    return httpx.Client(
        base_url=f"{airflow}/api/v2",
        headers={"Authorization": f"Bearer {answer.json()['access_token']}"},
        verify=verify,
        timeout=_PATIENCE_S,
    )


if __name__ == "__main__":
    typer.run(main)
