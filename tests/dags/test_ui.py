"""The UI in a real browser: a user logs in, fills in a form, follows a run, and reads.

Each test leaves a picture of its last page in its temporary directory, also if it fails.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from embedded.airflow import rest
from tests.dags.browser import USER, Guarded, chromium, guarded
from tests.dags.conftest import DAG_IDS, PATIENCE_S, Doors
from tests.dags.fake_application import JUDGED
from tidemark.continuity.findings.checks import CHECKS
from tidemark_airflow.data_docs import PREFIX
from tidemark_airflow.next_step import Step

SHOWN_MS = 120_000
HELP = {
    "tag_write": ("Strategy", "Empty: what is cheapest."),
    "validate": ("Window end", "End of event time, UTC, exclusive."),
    "project": ("Slices", "Only persistence ids of these slices, such as 0-255."),
    "purge": ("Below the retention", "Accept fewer days than TIDEMARK_RETENTION_DAYS."),
    "cleanup": ("Persistence ids", "One a line."),
    "reconcile": ("Persistence ids", "One a line. Empty: not chosen by persistence id."),
    "replicate": ("Topics", "One a line. Empty: all with the prefix"),
    "event_groups": ("Stream", "Empty: the stream"),
    "submit_event_groups": ("Group", "A group in YAML or JSON."),
    "manage_projections": ("Projections", "One a line. Empty: all of them"),
}
"""A field of each form, with its text for the user."""
FORMS_IN_MAKE_TEST = ("tag_write", "reconcile")
DRY_BY_DEFAULT = ("cleanup", "purge", "reconcile")


@pytest.fixture(scope="module")
def server(doors: Doors, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Yield a server of the running Airflow that asks for a login."""
    with guarded(doors.environment, tmp_path_factory.mktemp("guarded")) as server:
        yield server


@pytest.fixture(scope="module")
def reader(server: Guarded) -> Iterator[BrowserContext]:
    """Yield a browser in which a user has logged in."""
    expect.set_options(timeout=SHOWN_MS)
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1400, "height": 2000})
        context.set_default_timeout(SHOWN_MS)
        page = context.new_page()
        page.goto(server.url)
        page.get_by_label("Username").fill(USER)
        page.get_by_label("Password").fill(server.password)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("link", name="Dags")).to_be_visible()
        page.close()
        yield context


@pytest.fixture
def page(reader: BrowserContext, tmp_path: Path) -> Iterator[Page]:
    """Yield a new page."""
    page = reader.new_page()
    yield page
    page.screenshot(path=tmp_path / "page.png")
    page.close()


def open_form(page: Page, server: Guarded, dag_id: str) -> Locator:
    """Open the form with the button `Trigger` of a DAG, and return it."""
    page.goto(f"{server.url}/dags/{dag_id}")
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
    doors: Doors, server: Guarded, page: Page, dag_id: str
) -> None:
    form = open_form(page, server, dag_id)
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


def test_run_from_the_form_leads_to_the_results_of_its_checks(server: Guarded, page: Page) -> None:
    form = open_form(page, server, "validate")
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
    assert asked == {urlsplit(server.url).netloc}


@pytest.fixture
def docs(doors: Doors) -> Iterator[Path]:
    """Yield the directory of Data Docs, with a page in it, and a link that leads out of it."""
    directory = Path(doors.environment["TIDEMARK_DATA_DOCS_DIR"])
    directory.mkdir(exist_ok=True)
    own, link = directory / "own.html", directory / "link.html"
    own.write_text("<p>what only readers may see</p>")
    link.symlink_to(Path(doors.environment["AIRFLOW_HOME"]) / "airflow.db")
    yield directory
    own.unlink()
    link.unlink()


@pytest.mark.usefixtures("docs")
@pytest.mark.parametrize("path", ["own.html", "", "docs", "openapi.json", "nothing.html"])
def test_data_docs_are_for_users_who_have_logged_in(
    server: Guarded, reader: BrowserContext, path: str
) -> None:
    url = f"{server.url}{PREFIX}/{path}"
    assert httpx.get(url).status_code == httpx.codes.UNAUTHORIZED
    forged = httpx.get(url, cookies={"_token": "e30.e30.e30"})
    assert forged.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
    answer = reader.request.get(f"{server.url}{PREFIX}/own.html")
    assert "what only readers may see" in answer.text()
    assert answer.headers["content-security-policy"] == "script-src 'none'"


def test_next_step_is_for_users_who_have_logged_in_and_shows_values_as_text(
    server: Guarded, reader: BrowserContext, page: Page
) -> None:
    """Links may come from anywhere, with anything in them."""
    tag, group = "<script>document.title='taken'</script>", "\ngroup: a\n  - b: </textarea>"
    fields = {"operation": "check", "tags": [tag], "group": group}
    url = f"{server.url}{Step('reconcile', fields).url()}"
    assert httpx.get(url).status_code == httpx.codes.UNAUTHORIZED
    forged = httpx.get(url, cookies={"_token": "e30.e30.e30"})
    assert forged.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
    answer = reader.request.get(url)
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert reader.request.get(url.partition("?")[0] + "?conf=[1]").status == httpx.codes.BAD_REQUEST

    page.goto(url)
    expect(page.get_by_label("Operation")).to_have_value("check")
    expect(page.get_by_label("Tags")).to_have_value(tag)
    expect(page.get_by_label("Group")).to_have_value(group)
    assert page.title() == "reconcile: next step"


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
def test_no_path_leads_out_of_data_docs(server: Guarded, reader: BrowserContext, path: str) -> None:
    status, _ = raw_get(server, reader, "own.html")
    assert status == httpx.codes.OK
    status, text = raw_get(server, reader, path)
    assert status == httpx.codes.NOT_FOUND
    assert "validate builds them when it checks something" in text


def raw_get(server: Guarded, reader: BrowserContext, path: str) -> tuple[int, str]:
    """Return status and text of a page for the logged-in user, with the path sent unchanged."""
    cookies = reader.cookies(server.url)
    header = "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in cookies)
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    connection.request("GET", f"{PREFIX}/{path}", headers={"Cookie": header})
    answer = connection.getresponse()
    with answer:
        status_and_body = answer.status, answer.read().decode("utf-8", errors="replace")
    connection.close()
    return status_and_body
