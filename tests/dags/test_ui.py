"""The UI in a real browser: a user logs in, fills in a form, follows a run, and reads.

Each test leaves a picture of its last page in its temporary directory, also if it fails.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import httpx
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from embedded.airflow import rest
from tests.dags.conftest import DAG_IDS, PATIENCE_S, Doors
from tests.dags.fake_application import JUDGED
from tidemark.validate.findings.checks import CHECKS
from tidemark_airflow.data_docs import PREFIX
from tidemark_airflow.next_step import PREFIX as PAGES
from tidemark_airflow.next_step import Step

HELP = {
    "chain": ("Projections", "One per line. Empty: all of them"),
    "backfill": ("All time buckets", "Also process done time buckets again"),
    "weekly_check": ("Window end", "End of event time, UTC, exclusive."),
    "tag_write": ("Strategy", "Empty: the cheapest strategy."),
    "validate": ("Window end", "End of event time, UTC, exclusive."),
    "project": ("Slices", "Only persistence ids of these slices, such as 0-255."),
    "purge": ("Below the retention", "Accept fewer days than TIDEMARK_RETENTION_DAYS."),
    "cleanup": ("Persistence ids", "One per line."),
    "reconcile": ("Persistence ids", "One per line. Empty: not chosen by persistence id."),
    "replicate": ("Topics", "One per line. Empty: all with the prefix"),
    "event_groups": ("Stream", "Empty: the stream"),
    "submit_event_groups": ("Group", "A group in YAML or JSON."),
    "manage_projections": ("Projections", "One per line. Empty: all of them"),
    "manage_replication": ("Keys", "One per line. Empty: all of them."),
    "manage_event_groups": ("Groups", "One per line. Empty: all open groups"),
}
"""A field of each form, with its text for the user."""
FORMS_IN_MAKE_TEST = ("tag_write", "reconcile")
DRY_BY_DEFAULT = ("cleanup", "manage_event_groups", "manage_replication", "purge", "reconcile")


def open_form(page: Page, address: str, dag_id: str) -> Locator:
    """Open the form with the button `Trigger` of a DAG, and return it."""
    page.goto(f"{address}/dags/{dag_id}")
    page.get_by_role("button", name="Trigger").click()
    form = page.get_by_role("dialog").filter(has_text=f"Trigger Dag - {dag_id}")
    expect(form.get_by_role("button", name="Run Parameters")).to_be_visible()
    return form


def field(form: Locator, title: str) -> Locator:
    """Return a field of a form with all of its parts; a star behind the title means required."""
    shown = re.compile(rf"^{re.escape(title)}\s*\*?$")
    return form.get_by_role("group").filter(has=form.page.get_by_text(shown))


def pick_midnight(form: Locator, title: str, day: str) -> None:
    """Type a day, such as 2013/01/31, into the calendar that a field opens."""
    field(form, title).get_by_text("Select date and time").click()
    form.page.get_by_role("textbox", name=title).fill(day)
    form.page.keyboard.press("Escape")
    expect(form.page.get_by_role("textbox", name=title)).to_be_hidden()


def state(page: Page) -> Locator:
    """Return the badge beside the name of the run or task on its page."""
    return page.get_by_test_id("header-card").get_by_test_id("state-badge")


@pytest.mark.parametrize(
    "dag_id",
    [
        name if name in FORMS_IN_MAKE_TEST else pytest.param(name, marks=pytest.mark.long)
        for name in DAG_IDS
    ],
)
def test_form_of_each_dag_shows_its_fields_with_their_help(
    doors: Doors, address: str, page: Page, dag_id: str
) -> None:
    form = open_form(page, address, dag_id)
    title, text = HELP[dag_id]
    expect(field(form, title)).to_contain_text(text)
    params = rest.call(doors.client, "GET", f"dags/{dag_id}/details")["params"]
    for param in params.values():
        shown = field(form, param["schema"]["title"])
        expect(shown).to_be_visible()
        expect(shown).to_contain_text(param["description"] or "")
    if "dry_run" in params:
        box = field(form, "Dry run").get_by_role("checkbox")
        expect(box).to_be_checked(checked=dag_id in DRY_BY_DEFAULT)


def test_run_from_the_form_leads_to_the_results_of_its_checks(address: str, page: Page) -> None:
    form = open_form(page, address, "validate")
    pick_midnight(form, "Window start", f"{JUDGED}/01/01")
    pick_midnight(form, "Window end", f"{JUDGED}/01/02")
    form.get_by_role("button", name="Trigger", exact=True).click()

    expect(page).to_have_url(re.compile(r"/dags/validate/runs/manual__[^/]+$"))
    run_id = unquote(page.url.rpartition("/")[2])
    expect(state(page)).to_have_text("Success", timeout=PATIENCE_S * 1000)

    page.get_by_role("row").get_by_role("link", name="validate", exact=True).click()
    expect(state(page)).to_have_text("Success")
    window = f"--window-start {JUDGED}-01-01T00:00:00Z --window-end {JUDGED}-01-02T00:00:00Z"
    expect(page.get_by_text(window)).to_be_visible()
    page.get_by_role("link", name="Details", exact=True).click()

    asked: set[str] = set()
    page.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
    page.get_by_role("link", name="Data Docs").click()
    verdict = "1 time bucket: every check passed"
    expect(page.get_by_role("heading", name=verdict)).to_be_visible()
    for check in CHECKS:
        result = page.get_by_role("row").filter(has_text=check.rule)
        expect(result).to_contain_text("passed")
        expect(result).to_contain_text(check.name)
    page.get_by_role("link", name="all runs").click()
    listed = page.get_by_role("row").filter(has_text=f"validate/{run_id}/1")
    listed.get_by_role("link").click()
    expect(page.get_by_role("heading", name=verdict)).to_be_visible()
    assert asked == {urlsplit(address).netloc}


@pytest.fixture
def docs(doors: Doors) -> Iterator[Path]:
    """Yield the directory of Data Docs, with a page in it, and a link that leads out of it."""
    directory = Path(doors.environment["TIDEMARK_DATA_DOCS_DIR"])
    directory.mkdir(exist_ok=True)
    own, link = directory / "own.html", directory / "link.html"
    own.write_text("<p>what only readers may see</p>")
    link.symlink_to(doors.home / "airflow.db")
    yield directory
    own.unlink()
    link.unlink()


@pytest.mark.usefixtures("docs")
@pytest.mark.parametrize("path", ["own.html", "", "docs", "openapi.json", "nothing.html"])
def test_data_docs_are_for_users_who_have_logged_in(
    address: str, reader: BrowserContext, path: str
) -> None:
    url = f"{address}{PREFIX}/{path}"
    assert httpx.get(url).status_code == httpx.codes.UNAUTHORIZED
    forged = httpx.get(url, cookies={"_token": "e30.e30.e30"})
    assert forged.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
    answer = reader.request.get(f"{address}{PREFIX}/own.html")
    assert "what only readers may see" in answer.text()
    assert policy_of(answer.headers) == {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",
        "img-src": "'self'",
        **NOTHING_LEADS_OUT,
    }


NOTHING_LEADS_OUT = {
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
}
"""Directives for which `default-src` does not hold."""


def policy_of(headers: dict[str, str]) -> dict[str, str]:
    """Return the directives of a page's policy, by name."""
    directives = headers["content-security-policy"].split("; ")
    return {name: sources for name, _, sources in (part.partition(" ") for part in directives)}


def test_next_step_is_for_users_who_have_logged_in_and_shows_values_as_text(
    address: str, reader: BrowserContext, page: Page
) -> None:
    """Links may come from anywhere, with anything in them."""
    stream, group = "<script>document.title='taken'</script>", "\ngroup: a\n  - b: </textarea>"
    url = f"{address}{Step('submit_event_groups', {'stream': stream, 'group': group}).url()}"
    assert httpx.get(url).status_code == httpx.codes.UNAUTHORIZED
    forged = httpx.get(url, cookies={"_token": "e30.e30.e30"})
    assert forged.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
    policy = policy_of(reader.request.get(url).headers)
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert policy.items() >= NOTHING_LEADS_OUT.items()

    page.goto(url)
    expect(page.get_by_label("Stream")).to_have_value(stream)
    expect(page.get_by_label("Group")).to_have_value(group)
    assert page.title() == "submit_event_groups: next step"


@pytest.mark.parametrize(
    ("dag_id", "conf", "status"),
    [
        ("cleanup", "[1]", 400),
        ("cleanup", "{", 400),
        ("cleanup", f'{{"tags": {"[" * 2900}{"]" * 2900}}}', 400),
        ("cleanup", f"{'[' * 3000}{']' * 3000}", 400),
        ("cleanup", '{"Read only: shows a report, changes nothing": null}', 400),
        ("cleanup", '{"querySelectorAll": "x"}', 400),
        ("cleanup", '{"dry_run": "no"}', 400),
        ("cleanup", '{"persistence_ids": "order-17"}', 400),
        ("cleanup", '{"persistence_ids": [["order-17"]]}', 400),
        ("cleanup", '{"operation": "everything"}', 400),
        ("cleanup", '{"keep": 0}', 400),
        ("cleanup", '{"keep": NaN}', 400),
        ("nothing", "{}", 404),
        ("cleanup", '{"persistence_ids": ["order-17"], "keep": null}', 200),
    ],
)
def test_next_step_takes_only_what_the_form_takes(
    address: str, reader: BrowserContext, dag_id: str, conf: str, status: int
) -> None:
    answer = reader.request.get(f"{address}{PAGES}/{dag_id}?conf={quote(conf)}")
    assert answer.status == status


def test_link_from_elsewhere_is_shown_in_the_words_of_the_form_and_starts_as_a_dry_run(
    address: str, reader: BrowserContext, page: Page
) -> None:
    fields = {
        "operation": "all",
        "persistence_ids": ["order-17"],
        "never_use_again": True,
        "dry_run": False,
    }
    url = f"{address}{Step('cleanup', fields).url()}"
    for site in ("cross-site", "same-site", "none"):
        text = reader.request.get(url, headers={"Sec-Fetch-Site": site}).text()
        assert "the dry run was switched on, whatever the link says" in text

    page.goto(url)
    expect(page.get_by_label("Operation")).to_have_value("all")
    expect(page.get_by_label("Persistence ids")).to_have_value("order-17")
    expect(page.get_by_label("Never use again")).to_be_checked()
    expect(
        page.get_by_text("delete the sequence nr, and the persistence id itself")
    ).to_be_visible()
    expect(page.get_by_label("Dry run")).to_be_checked()
    expect(page.get_by_text("This is a dry run")).to_be_visible()
    expect(page.get_by_text("This is not a dry run")).to_be_hidden()
    page.get_by_label("Dry run").uncheck()
    expect(page.get_by_text("This is a dry run")).to_be_hidden()
    expect(page.get_by_text("This is not a dry run")).to_be_visible()


def test_page_of_an_operation_without_a_dry_run_says_so(address: str, page: Page) -> None:
    fields = {"operation": "pause", "projections": ["totals"]}
    page.goto(f"{address}{Step('manage_projections', fields).url()}")
    expect(page.get_by_text("This operation has no dry run")).to_be_visible()
    expect(page.get_by_label("Apply")).to_have_count(0)
    page.goto(f"{address}{Step('manage_projections', {**fields, 'operation': 'clear'}).url()}")
    expect(page.get_by_text("This is a dry run")).to_be_visible()
    expect(page.get_by_label("Apply")).not_to_be_checked()


def test_button_of_a_dry_run_leads_to_the_run_that_does_what_it_planned(
    doors: Doors, page: Page
) -> None:
    fields = {"operation": "repair", "persistence_ids": ["aircraft|N3753"]}
    run_id = rest.trigger(doors.client, "reconcile", conf=fields)
    rest.wait_for_run(doors.client, "reconcile", run_id, PATIENCE_S)
    page.goto(f"{doors.address}/dags/reconcile/runs/{run_id}/tasks/reconcile/details")
    page.get_by_role("link", name="Next step").click()
    expect(page.get_by_text("This is not a dry run")).to_be_visible()
    expect(page.get_by_text("This link was not opened")).to_have_count(0)
    page.get_by_role("button", name="Trigger").click()

    expect(page).to_have_url(re.compile(r"/dags/reconcile/runs/manual__[^/]+$"))
    started = unquote(page.url.rpartition("/")[2])
    run = rest.call(doors.client, "GET", f"dags/reconcile/dagRuns/{started}")
    assert run["conf"] == {**fields, "dry_run": False}
    rest.wait_for_run(doors.client, "reconcile", started, PATIENCE_S)


@pytest.mark.usefixtures("docs")
@pytest.mark.parametrize(
    "path",
    [
        "../airflow.db",
        "own.html/../../airflow.db",
        "%2e%2e/airflow.db",
        "..%2fairflow.db",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "own.html%00",
        "link.html",
    ],
)
def test_no_path_leads_out_of_data_docs(address: str, reader: BrowserContext, path: str) -> None:
    status, _ = raw_get(address, reader, "own.html")
    assert status == httpx.codes.OK
    status, text = raw_get(address, reader, path)
    assert status == httpx.codes.NOT_FOUND
    assert "validate builds them when it checks something" in text


def raw_get(address: str, reader: BrowserContext, path: str) -> tuple[int, str]:
    """Return status and text of a page for the logged-in user, with the path sent unchanged."""
    cookies = reader.cookies(address)
    header = "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in cookies)
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    connection.request("GET", f"{PREFIX}/{path}", headers={"Cookie": header})
    answer = connection.getresponse()
    with answer:
        status_and_body = answer.status, answer.read().decode("utf-8", errors="replace")
    connection.close()
    return status_and_body
