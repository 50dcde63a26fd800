"""The operator's page in a real browser, in the real Airflow, over a ledger with 100,000 pieces.

The stand-in for spark-submit ends each run that the page orders. Each test leaves a picture of its
last page in its temporary directory.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, FrameLocator, Locator, Page, Request, expect

from embedded.airflow import rest
from tests.dags.conftest import PATIENCE_S, Doors
from tests.integration.status.status_reading import Ledger, context, insert_finding
from tests.integration.support import Journal
from tidemark import clock
from tidemark.application.guarded_change import Plan, show_plan
from tidemark.cassandra.schema import table
from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.model import Group
from tidemark.event_groups.stream.store import Stream
from tidemark.ledger.frontier.spans import Span
from tidemark.ledger.piece import State
from tidemark.ledger.runs import note_end
from tidemark.observations import store
from tidemark.observations.metrics import Observation, Sample
from tidemark.purge.policies.pieces import PolicyPieces
from tidemark.window import iso, to_millis
from tidemark_airflow.pages.state.mount import PREFIX

FIRST = datetime(2024, 3, 1, tzinfo=UTC)
"""The first time bucket with a row; those before it are done, and in the frontier only."""
MANY = 100_000
RUN_ID = "tag_write/manual__2024/1"
HOSTILE = "<img src=x onerror=\"document.title='taken'\">\u202ep|1 ' -- "
VIEWS = ("overview", "grid", "projections", "findings", "topics", "groups", "purges", "runs")
MOST_BYTES = 200_000
"""The most bytes that the first view may transfer."""
MOST_NODES = 3_000
MOST_CLICKS = 3
TOPIC = {
    "topic": "orders",
    "partition": 3,
    "replicated_to": "2024-03-01T00:00:00Z",
    "lag_seconds": 7200,
    "next_offset": 17,
    "pointer": None,
    "lag_events": {"number": None, "is_at_least": False, "unknown": "Kafka was not asked"},
    "held_keys": {"number": 2, "is_at_least": False, "unknown": ""},
    "held_records": {"number": 3, "is_at_least": False, "unknown": ""},
    "held_since": "2024-03-01T00:00:00Z",
    "problem": "",
}


def at(hour: int) -> datetime:
    return FIRST + timedelta(hours=hour)


def opened(page: Page, address: str, view: str = "overview") -> Page:
    """Open a view of the page without Airflow's shell around it."""
    page.goto(f"{address}{PREFIX}/#{view}")
    expect(page.locator("#view-title")).to_have_text(view.capitalize())
    return page


def dialog_of(page: Page) -> Locator:
    return page.get_by_role("dialog")


def started_run(doors: Doors, page: Page, dag_id: str) -> dict[str, Any]:
    """Return the run to which the dialog of an order links, after its end."""
    link = dialog_of(page).get_by_role("link", name=re.compile("^manual__"))
    expect(link).to_be_visible()
    href = str(link.get_attribute("href"))
    assert f"/dags/{dag_id}/runs/" in href
    return rest.wait_for_run(doors.client, dag_id, unquote(href.rpartition("/")[2]), PATIENCE_S)


def answers(page: Page, pattern: str, answer: object) -> None:
    """Answer the requests of a page in the place of the API."""
    page.route(pattern, lambda route: route.fulfill(body=json.dumps(answer)))


@contextmanager
def counted(page: Page) -> Iterator[list[Request]]:
    """Yield the requests that the page sends meanwhile."""
    requests: list[Request] = []

    def count(request: Request) -> None:
        requests.append(request)

    page.on("request", count)
    yield requests
    page.remove_listener("request", count)


def test_before_the_first_run_the_page_says_so(address: str, page: Page) -> None:
    """The first test: the journal is still empty."""
    opened(page, address)
    expect(page.get_by_text("Nothing has run yet.")).to_be_visible()
    expect(page.get_by_role("link", name="Open tag_write")).to_be_visible()
    opened(page, address, "grid")
    expect(page.get_by_text("No time bucket is in the ledger.")).to_be_visible()


@pytest.fixture(scope="module")
def seeded(shown_journal: Journal) -> Journal:
    """Return the journal with red time buckets, findings, a purge that failed, runs and groups."""
    journal = shown_journal
    span = Span(
        *(to_millis(FIRST - timedelta(hours=MANY)), to_millis(FIRST), "", 1),
        *(to_millis(clock.now()), to_millis(clock.now()), True),
    )
    for application in ("tag-write", "validate"):
        journal.control.execute(
            f"UPDATE {table(journal.own_keyspace, 'piece')} SET revision = ?, done_spans = ?"
            " WHERE application = ? AND subject = ? AND bucket_size = ?",
            [uuid.uuid4(), [span], application, journal.keyspace, "Hour"],
        )
    tag_write = Ledger(journal, FIRST)
    run = context(journal, "tag-write", RUN_ID)
    tag_write.end(State.DONE, *range(30), counts={"events_read": 1234}, run=run)
    tag_write.end(State.FAILED, 30, error="wrong bucket size", run=run)
    note_end(run, {"state": "failed", "pieces": {"planned": 31, "done": 30}, "error": "red"})
    Ledger(journal, FIRST, "validate").end(State.DONE, *range(30))
    totals = Ledger(journal, FIRST, "project", f"{journal.keyspace}/totals")
    totals.end(State.HELD, 0, 1, error="gap: p|1 red 4..6 missing")
    for check, persistence_id, severity in (
        ("sequence_nr_gap", HOSTILE, "blocks"),
        ("progress_behind", "p|2", "warns"),
    ):
        insert_finding(
            *(journal, check, persistence_id),
            bucket=at(1),
            severity=severity,
            since=FIRST,
        )
    purge = context(journal, "purge", "purge/manual__2024/1")
    policies = PolicyPieces(purge)
    policies.finish("old-rows", policies.start("old-rows"), State.FAILED, {}, "no such table")
    show_plan(purge, "purge", journal.keyspace, Plan({"rows_deleted": 7}, [], lambda _: {}))
    submit(Stream(context(journal, "run-event-groups"), "default"), "refund-17")
    observe(journal)
    return journal


def observe(journal: Journal) -> None:
    """Write a lag of `totals` for three hours of two days, of which one was unknown."""
    morning = clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    lags = ((-3, 3), (-2, None), (-1, 1))
    for hour, seconds in lags:
        samples = [Sample("projection_lag_events", ("totals",), 5.0)]
        if seconds is not None:
            samples.append(Sample("projection_lag_seconds", ("totals",), seconds * 3600.0))
        # The last observation is before today's first moment; the first is of the day before.
        at = (
            morning + timedelta(hours=hour - 22)
            if seconds == 3
            else morning + timedelta(hours=hour)
        )
        store.write(context(journal), Observation(journal.keyspace, at, samples))


def submit(stream: Stream, name: str) -> None:
    values = {"t": "1", "id": "1"}
    update = "UPDATE shop.orders SET total = :t WHERE id = :id"
    group = Group.model_validate(
        {
            "group": name,
            "rows": [{"table": "shop.orders", "key": {"id": "1"}}],
            "events": [{"name": "e", "statement": update, "values": values}],
        }
    )
    stream.submit(GroupDefinition.stored(name, group.model_dump_json(by_alias=True)))


@pytest.mark.usefixtures("seeded")
def test_page_opens_from_the_navigation_and_leads_back_into_airflow(
    address: str, page: Page
) -> None:
    """Airflow's frame opens no windows and lets no script navigate the page around it."""
    page.goto(address)
    page.get_by_role("link", name="Tidemark", exact=True).click()
    frame: FrameLocator = page.frame_locator("iframe[title=Tidemark]")
    expect(frame.get_by_role("heading", name="Overview")).to_be_visible()
    frame.get_by_role("link", name="Runs", exact=True).click()
    frame.get_by_role("link", name=RUN_ID).click()
    expect(page).to_have_url(re.compile("/dags/tag_write/runs/manual__2024$"))
    expect(page.locator("iframe")).to_have_count(0)

    page.go_back()
    with page.context.expect_page() as other:
        page.frame_locator("iframe").get_by_role("link", name="Data Docs").click()
    assert urlsplit(other.value.url).path == "/tidemark/data-docs/"
    other.value.close()


@pytest.mark.usefixtures("seeded")
def test_each_view_shows_its_rows(address: str, page: Page) -> None:
    answer = json.dumps({"items": [TOPIC], "next": None})
    page.route("**/api/v1/replication*", lambda route: route.fulfill(body=answer))
    expected = {
        "overview": ("tag views", "bad", "wrong bucket size"),
        "projections": ("totals",),
        "findings": ("sequence_nr_gap", "blocks", "1 missing"),
        "topics": ("orders/3", "2 h", "unknown"),
        "groups": ("default", "refund-17"),
        "purges": ("old-rows", "failed", "no such table"),
        "runs": (RUN_ID, "failed", "30 of 31"),
    }
    for view, texts in expected.items():
        opened(page, address, view)
        row = page.get_by_role("row")
        for text in texts:
            row = row.filter(has_text=text)
        expect(row.first).to_be_visible()


@pytest.mark.usefixtures("seeded")
def test_cell_of_the_grid_shows_its_row_of_the_ledger_and_its_run(address: str, page: Page) -> None:
    opened(page, address, "grid")
    cell = page.get_by_role("gridcell", name="tag-write, 2024-03-02 06:00, failed")
    expect(cell).to_have_text("F")
    cell.click()
    details = page.get_by_role("region", name="tag-write, 2024-03-02 06:00 UTC")
    expect(details).to_contain_text("wrong bucket size")
    expect(details.get_by_role("link", name="Run")).to_have_attribute(
        "href", "/dags/tag_write/runs/manual__2024"
    )
    page.get_by_role("gridcell", name="tag-write, 2024-03-01 07:00, done").press("Enter")
    details = page.get_by_role("region", name="tag-write, 2024-03-01 07:00 UTC")
    expect(details).to_contain_text("1,234")
    legend = page.get_by_role("list", name="Legend").get_by_role("listitem")
    expect(legend).to_have_text(
        ["D done", "R running", "P planned", "H held", "F failed", "· not begun"]
    )


@pytest.mark.usefixtures("seeded")
def test_range_selected_with_the_keyboard_is_ordered(
    doors: Doors, address: str, page: Page
) -> None:
    opened(page, address, "grid")
    cell = page.get_by_role("gridcell", name="tag-write, 2024-03-02 04:00, done")
    cell.focus()
    cell.press("Enter")
    for _ in range(2):
        page.keyboard.press("Shift+ArrowRight")
    expect(page.locator('[aria-selected="true"]')).to_have_count(3)
    expect(page.get_by_role("status")).to_contain_text("3 time buckets of 1 rows are selected")
    selection = page.get_by_role("region", name="Selected range")
    expect(selection).to_contain_text("2024-03-02 04:00 to 2024-03-02 07:00 UTC: 2 done, 1 failed")

    selection.get_by_role("button", name="Run tag-write").press("Enter")
    dialog = dialog_of(page)
    touched = dialog.get_by_role("row").filter(has_text="tag-write")
    expect(touched).to_have_text("tag-write2 done, 1 failed")
    expect(dialog).to_contain_text("This is not a dry run")
    dialog.get_by_label("Again, also the time buckets that are done").check()
    expect(dialog).to_contain_text("time buckets that are done are done again")
    dialog.get_by_label("Dry run").check()
    expect(dialog).to_contain_text("This is a dry run")
    dialog.get_by_role("button", name="Start dry run").click()

    run = started_run(doors, page, "tag_write")
    assert run["conf"] == {
        "window_start": iso(at(28)),
        "window_end": iso(at(31)),
        "force": True,
        "dry_run": True,
    }
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(selection.get_by_role("button", name="Run tag-write")).to_be_focused()


@pytest.mark.usefixtures("seeded")
def test_red_states_are_three_clicks_from_an_order_that_answers(
    doors: Doors, address: str, page: Page
) -> None:
    """A DAG that is started by hand only may be paused; the order unpauses it."""
    rest.unpause(doors.client, "reconcile", paused=True)
    window = {"window_start": iso(at(30)), "window_end": iso(at(31))}
    orders: dict[str, tuple[str, dict[str, Any]]] = {
        "tag views": ("tag_write", window),
        "checks": ("reconcile", {"operation": "repair", "from_findings": True}),
        "purge": ("purge", {"policies": ["old-rows"]}),
    }
    for part, (dag_id, conf) in orders.items():
        opened(page, address)
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name=part, exact=True))
        expect(row).to_contain_text("bad")
        clicks = [row.get_by_role("button"), dialog_of(page).get_by_role("button", name="Start")]
        for button in clicks:
            button.click()
        assert len(clicks) <= MOST_CLICKS
        run = started_run(doors, page, dag_id)
        assert run["state"] == "success"
        assert conf.items() <= run["conf"].items()
        unpaused = dialog_of(page).get_by_text("was paused, and is not paused any more")
        expect(unpaused).to_have_count(1 if dag_id == "reconcile" else 0)
        page.keyboard.press("Escape")


@pytest.mark.usefixtures("seeded")
def test_finding_is_settled_with_a_reason(doors: Doors, address: str, page: Page) -> None:
    opened(page, address, "findings")
    page.get_by_role("button", name="Settle sequence_nr_gap").click()
    start = dialog_of(page).get_by_role("button", name="Start")
    expect(start).to_be_disabled()
    dialog_of(page).get_by_label("Reason").fill("lost with its disk")
    start.click()
    run = started_run(doors, page, "reconcile")
    assert run["conf"] == {
        "operation": "settle",
        "check": "sequence_nr_gap",
        "persistence_ids": [HOSTILE],
        "number": 3,
        "reason": "lost with its disk",
        "dry_run": False,
    }


RELEASES = [
    {
        **{"version": version, "state": state, "table": f"t.totals_v{version}", "since": None},
        **{"owner": "", "states": {"done": 3}, "is_complete": True},
    }
    for version, state in ((3, "next"), (2, "live"), (1, "ended"))
]


@pytest.mark.usefixtures("seeded")
def test_a_projection_has_its_lag_over_time_as_a_line_and_as_text(address: str, page: Page) -> None:
    opened(page, address, "projections")
    page.get_by_role("link", name="totals", exact=True).click()
    expect(page.locator("#view-title")).to_have_text("totals")
    line = page.get_by_role("img", name="Lag (time) of totals: at most 3 h, last 1 h")
    expect(line).to_be_visible()
    # The lag was unknown in between.
    expect(line.locator("polyline")).to_have_count(2)
    page.get_by_text("as a table").click()
    days = page.get_by_role("table", name="The largest lag of each day").get_by_role("row")
    expect(days.last).to_contain_text("3 h")
    expect(days).to_have_count(3)
    assert serious(page) == []


@pytest.mark.usefixtures("seeded")
def test_versions_are_compared_promoted_and_dropped_by_orders(address: str, page: Page) -> None:
    answer = json.dumps({"items": RELEASES, "next": None})
    page.route("**/api/v1/releases*", lambda route: route.fulfill(body=answer))
    page.goto(f"{address}{PREFIX}/#projections?totals")
    table = page.get_by_role("table", name="Versions")
    for label, fields in (
        ("Compare version 3 with 2", ("diff", "totals@2, totals@3")),
        ("Promote version 3", ("promote", "totals", "3")),
        ("Drop version 1", ("drop-release", "totals", "1")),
    ):
        table.get_by_role("button", name=label).click()
        values = dialog_of(page).locator("dd")
        expect(values).to_have_text(fields)
        is_dry = label.startswith("Compare")
        note = "This is not a dry run" if is_dry else "This is a dry run"
        expect(dialog_of(page)).to_contain_text(note)
        page.keyboard.press("Escape")


@pytest.mark.usefixtures("seeded")
def test_findings_are_filtered_by_the_server(address: str, page: Page) -> None:
    opened(page, address, "findings")
    rows = page.get_by_role("table", name="Findings").locator("tbody tr")
    expect(rows).to_have_count(2)
    with page.expect_response(lambda response: "severity=warns" in response.url):
        page.get_by_label("Severity").select_option("warns")
    expect(rows).to_have_count(1)
    with page.expect_response(lambda response: "check=sequence_nr_gap" in response.url):
        page.get_by_label("Check").fill("sequence_nr_gap")
        page.get_by_label("Check").press("Enter")
    expect(page.get_by_text("No such finding.")).to_be_visible()
    page.get_by_label("Severity").select_option("")
    with page.expect_response(lambda response: "before=" in response.url):
        page.get_by_label("Age").select_option("30")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("sequence_nr_gap")


@pytest.mark.usefixtures("seeded")
def test_another_journal_is_chosen_in_the_head(address: str, page: Page) -> None:
    answers(page, "**/api/v1/journals*", {"items": ["default", "orders"]})
    nothing: dict[str, Any] = {"items": [], "next": None}
    # This Airflow has no such journal; what its API answers is in test_state_api.
    for name, answer in (
        ("overview", {"state": "ok", "lines": [], "last_ended": None}),
        ("purges", {"policies": nothing, "plans": nothing}),
    ):
        answers(page, f"**/api/v1/{name}?journal=orders*", answer)
    opened(page, address, "purges")
    page.get_by_label("Journal").select_option("orders")
    expect(page).to_have_url(re.compile(r"/\?journal=orders#purges$"))
    expect(page.get_by_text("No policy was applied yet.")).to_be_visible()
    expect(page.get_by_label("Journal")).to_have_value("orders")
    with page.expect_request("**/api/v1/orders/preview") as ordered:
        page.get_by_role("button", name="Plan a purge").click()
    assert json.loads(ordered.value.post_data or "")["dag_id"] == "purge.orders"
    page.keyboard.press("Escape")
    page.get_by_label("Journal").select_option("default")
    expect(page).to_have_url(re.compile(r"/state/#purges$"))
    expect(page.get_by_role("row").filter(has_text="old-rows").first).to_be_visible()


@pytest.mark.usefixtures("seeded")
def test_persistence_ids_are_text(address: str, page: Page) -> None:
    opened(page, address, "findings")
    cell = page.get_by_role("row").filter(has_text="sequence_nr_gap").locator("td.id").first
    assert cell.evaluate("cell => cell.textContent") == HOSTILE
    page.get_by_role("button", name="Settle sequence_nr_gap").click()
    shown = dialog_of(page).locator("dd").filter(has_text="onerror")
    assert shown.evaluate("value => value.textContent") == HOSTILE
    assert page.title() == "Tidemark: state"
    expect(page.locator("#view img, dialog img")).to_have_count(0)


@pytest.mark.usefixtures("seeded")
def test_problem_of_an_answer_is_shown_above_what_was_read_before(address: str, page: Page) -> None:
    opened(page, address)
    problem = {"what": "cannot reach Cassandra", "where": "one:9042", "do": "check that it is up"}
    page.route(
        "**/api/v1/overview*", lambda route: route.fulfill(status=503, body=json.dumps(problem))
    )
    page.clock.install()
    page.clock.run_for(16_000)
    text = "cannot reach Cassandra (one:9042); check that it is up"
    expect(page.get_by_role("alert")).to_have_text(text)
    expect(page.get_by_role("row").filter(has_text="tag views")).to_be_visible()


@pytest.mark.usefixtures("seeded")
def test_colour_mode_is_that_of_airflow(address: str, reader: BrowserContext, page: Page) -> None:
    page.emulate_media(color_scheme="light")
    opened(page, address)
    body = page.locator("body")
    light, dark = "rgb(255, 255, 255)", "rgb(0, 0, 0)"
    expect(body).to_have_css("background-color", light)
    page.emulate_media(color_scheme="dark")
    expect(body).to_have_css("background-color", dark)
    shell = reader.new_page()
    shell.goto(f"{address}{PREFIX}/static/theme.js")
    shell.evaluate("localStorage.setItem('theme', 'light')")
    expect(body).to_have_css("background-color", light)
    shell.evaluate("localStorage.removeItem('theme')")
    shell.close()


@pytest.mark.usefixtures("seeded")
def test_views_fit_a_phone_and_have_no_serious_fault_of_accessibility(
    address: str, page: Page
) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for view in VIEWS:
            opened(page, address, view)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
            assert serious(page) == [], (scheme, view)
    opened(page, address, "findings")
    page.get_by_role("button", name="Settle sequence_nr_gap").click()
    assert serious(page) == []


def serious(page: Page) -> list[tuple[str, list[str]]]:
    """Return the faults that axe finds on the page, with the elements."""
    violations = Axe().run(page).response["violations"]
    return [
        (fault["id"], [node["html"] for node in fault["nodes"]])
        for fault in violations
        if fault["impact"] in ("serious", "critical")
    ]


@pytest.mark.usefixtures("seeded")
def test_many_pieces_cost_no_more_elements_and_requests_than_few(
    address: str, reader: BrowserContext
) -> None:
    page = reader.new_page()
    with counted(page) as requests:
        opened(page, address)
    transferred = [request.sizes() for request in requests]
    sizes = [size["responseHeadersSize"] + size["responseBodySize"] for size in transferred]
    assert sum(sizes) < MOST_BYTES
    assert {urlsplit(request.url).netloc for request in requests} == {urlsplit(address).netloc}
    for view in ("grid", "runs", "findings", "projections"):
        with counted(page) as requests:
            opened(page, address, view)
        paths = [urlsplit(request.url).path.rpartition("/")[2] for request in requests]
        assert sorted(paths) == sorted([view, "overview"])
        assert page.locator("*").count() < MOST_NODES
    opened(page, address, "grid")
    shown = page.locator(".heading .quiet")
    nodes = page.locator("*").count()
    for _ in range(3):
        window = str(shown.text_content())
        page.get_by_role("button", name="Older").click()
        expect(shown).not_to_have_text(window)
        # Less or more of the heads of days fit.
        assert page.locator("*").count() <= nodes + 10
    page.close()


@pytest.mark.usefixtures("seeded")
def test_page_is_read_again_while_it_is_seen_and_keeps_focus_and_selection(
    address: str, page: Page
) -> None:
    page.clock.install()
    opened(page, address, "grid")
    cell = page.get_by_role("gridcell", name="tag-write, 2024-03-01 07:00, done")
    cell.press("Enter")
    page.keyboard.press("Shift+ArrowLeft")
    with page.expect_response("**/api/v1/grid*"):
        page.clock.run_for(16_000)
    expect(page.locator('[aria-selected="true"]')).to_have_count(2)
    focused = page.get_by_role("gridcell", name="tag-write, 2024-03-01 06:00, done")
    expect(focused).to_be_focused()

    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    with counted(page) as requests:
        page.clock.run_for(60_000)
    assert requests == []
    page.evaluate("Object.defineProperty(document, 'hidden', {value: false})")
    with page.expect_response("**/api/v1/grid*"):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
