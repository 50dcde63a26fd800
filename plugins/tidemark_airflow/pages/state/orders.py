"""Orders of runs, and what they will touch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from tidemark.errors import InvalidInput
from tidemark.ledger.applications import PROJECT, TAG_WRITE, VALIDATE
from tidemark.status.answers.grid import Touched, touched
from tidemark.status.as_json import as_json
from tidemark.window import Window
from tidemark_airflow.pages.forms import DRY, DagForm, form_of
from tidemark_airflow.pages.state.airflow_api import AirflowOfUser
from tidemark_airflow.pages.state.journal import of_dag
from tidemark_airflow.pages.state.links import run_path
from tidemark_airflow.pages.state.permissions import require_may_start
from tidemark_airflow.pages.state.problems import ProblemError
from tidemark_airflow.pages.state.session import shared

_APPLICATIONS: Mapping[str, Collection[str]] = {
    "tag_write": (TAG_WRITE,),
    "validate": (VALIDATE,),
    "project": (PROJECT,),
    "chain": (TAG_WRITE, VALIDATE, PROJECT),
    "backfill": (TAG_WRITE, VALIDATE, PROJECT),
}
"""The applications that work through the window of an order, by DAG of `default`."""


class Order(BaseModel):
    """A run to start.

    Attributes:
        dag_id: the DAG.
        conf: fields of the DAG's form; the others have their defaults.
        dry_run: whether the run only plans; None: as in `conf`, or as the form has it.
        unpause: unpause a paused DAG that also has a schedule. A DAG without one is always
            unpaused.
    """

    model_config = ConfigDict(extra="forbid")

    dag_id: str = Field(min_length=1, max_length=250)
    conf: dict[str, Any] = {}
    dry_run: bool | None = None
    unpause: bool = False


class Started(BaseModel):
    """The run that an order has started.

    Attributes:
        run_id: id of the run in Airflow.
        url: its path in Airflow.
        unpaused: whether the order has unpaused the DAG.
        dry_run: whether the run only plans.
    """

    run_id: str
    url: str
    unpaused: bool
    dry_run: bool


class OrderPreview(BaseModel):
    """What an order will do.

    Attributes:
        dag_id: the DAG.
        dry_run: whether the run only plans.
        conf: the fields that are sent.
        paused: whether the DAG is paused.
        has_schedule: whether time or assets start the DAG, too.
        unpauses: whether the order unpauses the DAG.
        touches: the time buckets in the window of the order, by application and projection.
        note: one line for people.
    """

    dag_id: str
    dry_run: bool
    conf: dict[str, Any]
    paused: bool
    has_schedule: bool
    unpauses: bool
    touches: list[Touched]
    note: str


class CheckedOrder:
    """An order that its user may give, and that fits the DAG's form."""

    def __init__(self, order: Order, form: DagForm) -> None:
        """Fill in the field that chooses a dry run.

        Raises:
            ProblemError: the operation has no dry run.
        """
        self.order = order
        self.form = form
        self.conf = dict(order.conf)
        flag = form.flag(order.conf)
        if order.dry_run is not None and flag is not None:
            self.conf[flag] = DRY[flag] if order.dry_run else not DRY[flag]
        elif order.dry_run:
            raise ProblemError(422, f"{order.dag_id} has no dry run of this", where="dry_run")
        chosen = self.conf.get(flag, form.default(flag)) if flag is not None else None
        self.is_dry = flag is not None and chosen == DRY[flag]

    def unpauses(self, *, is_paused: bool) -> bool:
        """Return whether the order unpauses the DAG, so that the run starts."""
        return is_paused and (self.order.unpause or not self.form.has_schedule)


def _require_json(content_type: Annotated[str, Header()] = "") -> None:
    """Reject what a form of a foreign page can send without a check by the browser.

    Raises:
        ProblemError: 415.
    """
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise ProblemError(415, "an order is JSON", where="Content-Type")


router = APIRouter(prefix="/api/v1/orders", dependencies=[Depends(_require_json)])


def _checked(order: Order, request: Request, user: GetUserDep) -> CheckedOrder:
    require_may_start(order.dag_id, request, user)
    form = form_of(order.dag_id)
    form.check(order.conf)
    return CheckedOrder(order, form)


Checked = Annotated[CheckedOrder, Depends(_checked)]


@router.post("/preview", response_model=OrderPreview)
async def preview(checked: Checked, request: Request) -> JSONResponse:
    """Return what an order will do, from the ledger; nothing is started."""
    order = checked.order
    is_paused = await AirflowOfUser(request).is_paused(order.dag_id)
    base, journal = of_dag(order.dag_id)
    window, applications = _window(order.conf), _APPLICATIONS.get(base, ())
    found: list[Touched] = []
    if window is not None and applications:
        projections = order.conf.get("projections") or ()
        found = await shared.read(
            journal, lambda run: touched(run, window, applications, projections)
        )
    unpauses = checked.unpauses(is_paused=is_paused)
    answer = {
        "dag_id": order.dag_id,
        "dry_run": checked.is_dry,
        "conf": checked.conf,
        "paused": is_paused,
        "has_schedule": checked.form.has_schedule,
        "unpauses": unpauses,
        "touches": as_json(found),
        "note": _note(checked, is_paused=is_paused, touches=bool(found)),
    }
    return JSONResponse(answer)


@router.post("", status_code=201)
async def give(checked: Checked, request: Request) -> Started:
    """Start a run, and unpause its DAG if that is needed for it to start."""
    airflow = AirflowOfUser(request)
    dag_id = checked.order.dag_id
    is_paused = await airflow.is_paused(dag_id)
    unpauses = checked.unpauses(is_paused=is_paused)
    if is_paused and not unpauses:
        raise ProblemError(
            409,
            f"{dag_id} is paused, and unpausing it starts its schedule, too",
            where=dag_id,
            do="order with unpause, or unpause it in Airflow",
        )
    if unpauses:
        await airflow.unpause(dag_id)
    run_id = await airflow.start(dag_id, checked.conf)
    url = run_path(dag_id, run_id)
    return Started(run_id=run_id, url=url, unpaused=unpauses, dry_run=checked.is_dry)


def _window(conf: Mapping[str, Any]) -> Window | None:
    start, end = conf.get("window_start"), conf.get("window_end")
    if not start or not end:
        return None
    try:
        return Window.parse(str(start), str(end))
    except InvalidInput as error:
        raise ProblemError(422, error.what, where="conf", do=error.do) from None


def _note(checked: CheckedOrder, *, is_paused: bool, touches: bool) -> str:
    parts = [
        "a dry run: it plans and reports, and changes nothing"
        if checked.is_dry
        else "not a dry run: it does what the fields say"
    ]
    if touches:
        parts.append(
            "time buckets that are done are done again"
            if checked.conf.get("force")
            else "time buckets that are done stay as they are"
        )
    if checked.unpauses(is_paused=is_paused):
        schedule = ", and its schedule starts" if checked.form.has_schedule else ""
        parts.append(f"{checked.order.dag_id} is unpaused{schedule}")
    elif is_paused:
        parts.append(f"{checked.order.dag_id} is paused: order with unpause")
    return "; ".join(parts)
