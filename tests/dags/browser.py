"""The browser of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from embedded.machine import browser

SHOWN_MS = 120_000
# The sandbox does not work for root, and only pages of this machine are opened. Without the other
# options the browser asks the network for updates and waits for a graphics card.
_ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a running browser, and close it in the end."""
    program = browser.program()
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=program,
            args=_ARGUMENTS,
            env={**browser.environment(program)},
        )
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def logged_in(address: str, user: str, password: str) -> Iterator[BrowserContext]:
    """Yield a browser in which a user has logged in to the Airflow at an address."""
    expect.set_options(timeout=SHOWN_MS)
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1400, "height": 2000})
        context.set_default_timeout(SHOWN_MS)
        page = context.new_page()
        page.goto(address)
        page.get_by_label("Username").fill(user)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("link", name="Dags")).to_be_visible()
        page.close()
        yield context
