"""Data between the events of a group: columns, SQL, functions, addresses, and many rows."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.integration.event_groups.test_event_groups import cql, shop, state, submit
from tests.integration.support import DATA, Journal

__all__ = ["shop"]
READ = """
group: {name}
events:
  - name: read
    statement: SELECT n, amount FROM <posting> WHERE account = 'ann'
"""
WRITE = (
    READ
    + """
  - name: write
    statement: UPDATE <account> SET total = :total WHERE id = :id
    values: {{id: ann}}
    after: [read]
    needs: [{{event: read, as: total, {need}}}]
"""
)
FAIL = """
  - name: fail
    statement: SELECT n FROM <posting> WHERE account = 'ann'
    expect: none
    after: [write]
"""


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    """Return a directory with functions."""
    folder = tmp_path / "functions"
    folder.mkdir()
    shutil.copy(DATA / "event_groups" / "shop_functions.py", folder)
    return folder


@pytest.fixture
def address() -> Iterator[str]:
    """Return an address that answers with the parameter's name, and with 500 below /broken."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(500 if self.path == "/broken" else 200)
            self.end_headers()
            self.wfile.write(b'"of the address"')

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def executed(journal: Journal, folder: Path, functions: Path, *texts: str, **more: str) -> Any:
    settings = {"EVENT_GROUP_FUNCTIONS_DIR": str(functions), **more}
    result = submit(journal, folder, *texts, **settings)
    assert result.status == 0, result.stderr
    return journal.run("run_event_groups", **settings)


@pytest.mark.parametrize(
    ("need", "total"),
    [
        ('sql: "sum(amount) * 1.5"', "15.75"),
        ("sql: max(n)", "3"),
        ('call: "shop_functions:total"', "10.5"),
    ],
)
def test_a_value_is_made_of_the_rows_of_a_result(
    shop: Journal, tmp_path: Path, functions: Path, need: str, total: str
) -> None:
    result = executed(shop, tmp_path, functions, WRITE.format(name="g", need=need))
    assert result.status == 0, result.stderr
    [row] = cql(shop, "SELECT total FROM {account} WHERE id = 'ann'")
    assert float(row["total"]) == float(total)


EACH = (
    READ
    + """
  - name: write
    each: read
    statement: UPDATE <posting> SET amount = :amount WHERE account = :account AND n = :n
    values: {{account: ann}}
    after: [read]
    needs:
      - {{event: read, as: n}}
      - {{event: read, as: amount, {need}}}
"""
)


@pytest.mark.parametrize(
    ("need", "amounts"),
    [
        ('call: "shop_functions:doubled"', [7.0, 7.0, 7.0]),
        ('sql: "amount + n"', [4.5, 5.5, 6.5]),
        ('sql: "amount + sum(n) OVER ()"', [9.5, 9.5, 9.5]),
    ],
)
def test_a_statement_is_sent_for_each_row_and_rolled_back_for_each(
    shop: Journal, tmp_path: Path, functions: Path, need: str, amounts: list[float]
) -> None:
    before = state(shop)
    failing = EACH.format(name="failing", need=need) + FAIL
    assert executed(shop, tmp_path, functions, failing).status == 3
    assert state(shop) == before
    assert executed(shop, tmp_path, functions, EACH.format(name="g", need=need)).status == 0
    rows = sorted(shop.rows("posting"), key=lambda row: int(row["n"]))
    assert [float(row["amount"]) for row in rows] == amounts


def test_values_come_from_outside_and_are_asked_for_once(
    shop: Journal, tmp_path: Path, functions: Path, address: str
) -> None:
    text = f"""
group: outside
events:
  - name: by-function
    statement: UPDATE <account> SET note = :note WHERE id = 'ann'
    needs: [{{as: note, call: "shop_functions:noted"}}]
  - name: by-address
    statement: UPDATE <account> SET note = :note WHERE id = 'bob'
    needs: [{{as: note, url: "http://{address}/"}}]
"""
    refused = submit(shop, tmp_path, text, EVENT_GROUP_FUNCTIONS_DIR=str(functions))
    assert "is not allowed" in refused.error_lines[0]
    assert "name its host in TIDEMARK_EVENT_GROUP_HOSTS" in refused.error_lines[0]
    result = executed(shop, tmp_path, functions, text, EVENT_GROUP_HOSTS=address)
    assert result.status == 0, result.stderr
    notes = {row["id"]: row["note"] for row in shop.rows("account")}
    assert notes == {"ann": "outside/by-function/note", "bob": "of the address"}


@pytest.mark.parametrize(
    ("need", "says"),
    [
        ('call: "shop_functions:broken"', "IndexError: list index out of range (shop_functions.py"),
        ('call: "shop_functions:sleeps", timeout: 1', "sleeps has not answered within 1 s"),
        ('call: "shop_functions:dies"', "dies has ended its process with exit status 1"),
        ('sql: "n + none"', "Binder Error"),
        ("sql: n", "`n` has 3 values, and one is needed"),
        ("take: total", "read has found 3 rows, and one is needed"),
    ],
)
def test_a_value_that_cannot_be_made_fails_its_event(
    shop: Journal, tmp_path: Path, functions: Path, need: str, says: str
) -> None:
    before = state(shop)
    result = executed(shop, tmp_path, functions, WRITE.format(name="g", need=need))
    assert result.status == 3
    [line] = result.report["lines"]
    assert says in line
    assert state(shop) == before


def test_rows_that_do_not_fit_fail_their_event(
    shop: Journal, tmp_path: Path, functions: Path
) -> None:
    few = EACH.format(name="few", need='call: "shop_functions:too_few"')
    [line] = executed(shop, tmp_path, functions, few).report["lines"]
    assert "too_few has made 1 values of 3 rows" in line
    twice = EACH.format(name="twice", need='sql: "n"').replace("as: n}", "as: n, sql: '1'}")
    [line] = executed(shop, tmp_path, functions, twice).report["lines"]
    assert "it writes the row ann, 1 twice" in line


def test_a_function_takes_back_what_its_event_has_done(
    shop: Journal, tmp_path: Path, functions: Path
) -> None:
    text = """
group: compensated
events:
  - name: told
    rollback: {call: "shop_functions:taken_back"}
  - name: write
    statement: UPDATE <account> SET note = :note WHERE id = 'ann'
    values: {note: new}
    after: [told]
    rollback: {call: "shop_functions:taken_back"}
"""
    assert executed(shop, tmp_path, functions, text + FAIL).status == 3
    lines = (functions / "taken_back.txt").read_text().splitlines()
    assert lines == ["write [{'note': 'new'}]", "told [{}]"]


def test_a_null_that_was_transferred_is_rolled_back(shop: Journal, tmp_path: Path) -> None:
    cql(shop, "INSERT INTO {account} (id, total) VALUES ('empty', 1)")
    before = state(shop)
    text = """
group: nulls
events:
  - name: read
    statement: SELECT note FROM <account> WHERE id = 'empty'
  - name: write
    statement: UPDATE <account> SET note = :note WHERE id = 'ann'
    after: [read]
    needs: [{event: read, as: note}]
"""
    assert submit(shop, tmp_path, text + FAIL).status == 0
    assert shop.run("run_event_groups").status == 3
    assert state(shop) == before


def test_a_function_that_is_not_defined_in_the_directory_is_rejected(
    shop: Journal, tmp_path: Path, functions: Path
) -> None:
    for name, says in (
        ("nowhere:f", "there is no module nowhere in"),
        ("shop_functions:f", "shop_functions.py has no `def f`"),
        ("os:system", "there is no module os in"),
    ):
        text = WRITE.format(name="g", need=f'call: "{name}"')
        result = submit(shop, tmp_path, text, EVENT_GROUP_FUNCTIONS_DIR=str(functions))
        assert result.status == 2
        assert f"define it with `def` in a module in {functions}" in result.error_lines[0]
        assert says in result.error_lines[0]
        assert ".yaml:" in result.error_lines[0]


def test_a_module_that_has_lost_its_function_is_not_executed(
    shop: Journal, tmp_path: Path, functions: Path
) -> None:
    before = state(shop)
    variables = {"EVENT_GROUP_FUNCTIONS_DIR": str(functions)}
    text = WRITE.format(name="g", need='call: "shop_functions:total"')
    assert submit(shop, tmp_path, text, **variables).status == 0
    trace = tmp_path / "executed"
    (functions / "shop_functions.py").write_text(
        "from builtins import sum as total\n"
        f"from pathlib import Path\nPath({str(trace)!r}).touch()\n"
    )
    result = shop.run("run_event_groups", **variables)
    assert result.status == 3
    [line] = result.report["lines"]
    assert "shop_functions.py has no `def total` at its top level" in line
    assert not trace.exists()
    assert state(shop) == before
