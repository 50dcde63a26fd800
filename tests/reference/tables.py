"""The reference page of the tables, from the schema files and their comments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.reference.markdown import code, plain, table
from tests.repository import REPOSITORY

SCHEMA = REPOSITORY / "include" / "sql" / "schema"
_KEYSPACES = {
    "tidemark": "Tidemark's own tables",
    "pekko": "Pekko's journal",
    "pekko_snapshot": "Pekko's snapshots",
    "kafka_journal": "kafka-journal",
    "kafka_journal_locks": "Locks of kafka-journal",
    "flights": "Read models of the demo",
}
"""The schema files in the order of the page, each with its title."""
_HEAD = """# Tables

The tables that Tidemark makes, reads or writes. `key` shows which columns form the partition key,
and which are clustering columns.
"""
_TABLE = re.compile(
    r"(?P<comment>(?:^--[^\n]*\n)*)^CREATE TABLE IF NOT EXISTS \$\{keyspace\}\.(?P<name>\w+) \(\n"
    r"(?P<columns>.*?)\n\)",
    re.MULTILINE | re.DOTALL,
)


def page() -> str:
    """Return the page."""
    files = {file.stem for file in SCHEMA.glob("*.cql")}
    missing = files ^ set(_KEYSPACES)
    if missing:
        raise ValueError(f"no title, or no file, for {sorted(missing)}")
    return "\n\n".join([_HEAD, *(part for name in _KEYSPACES for part in _keyspace(name))]) + "\n"


def _keyspace(name: str) -> Iterator[str]:
    text = (SCHEMA / f"{name}.cql").read_text()
    yield f"## {_KEYSPACES[name]}"
    head = text.partition("\n\n")[0]
    if "CREATE" not in head:
        yield _prose(head)
    for found in _TABLE.finditer(text):
        yield f"### `{found['name']}`"
        if found["comment"]:
            yield _prose(found["comment"])
        yield table(("column", "type", "key"), _columns(found["columns"]))


def _columns(text: str) -> Iterator[tuple[str, str, str]]:
    keys: dict[str, str] = {}
    composite = re.search(r"PRIMARY KEY \((.*)\)$", text)
    if composite is not None:
        partition, clustering = _key(composite[1])
        keys.update(dict.fromkeys(partition, "partition key"))
        keys.update(dict.fromkeys(clustering, "clustering"))
    for line in text.splitlines():
        name, _, cql_type = line.strip().rstrip(",").partition(" ")
        if name == "PRIMARY":
            continue
        own = "partition key" if cql_type.endswith(" PRIMARY KEY") else keys.get(name, "")
        if cql_type.endswith(" static"):
            own = "static"
        yield code(name), code(re.sub(r" (PRIMARY KEY|static)$", "", cql_type)), own


def _key(text: str) -> tuple[list[str], list[str]]:
    """Return the columns of the partition key and the clustering columns."""
    grouped = re.fullmatch(r"\(([^)]*)\)(?:, )?(.*)", text)
    if grouped is not None:
        return grouped[1].split(", "), [name for name in grouped[2].split(", ") if name]
    first, *others = text.split(", ")
    return [first], others


def _prose(comment: str) -> str:
    return plain(" ".join(line.removeprefix("--").strip() for line in comment.splitlines()))
