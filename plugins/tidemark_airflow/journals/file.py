"""Reads the file of journals while DAGs are parsed.

A journal whose entry cannot be used has no DAGs; the DAGs of the other journals stay. Airflow shows
import errors by DAG file, so `dags/check_journals.py`, which has no DAG, fails in their place.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from tidemark_airflow.environment.installation import home
from tidemark_airflow.journals.journal import CASSANDRA, DEFAULT, OF_ENVIRONMENT, AirflowJournal

FILE = "TIDEMARK_JOURNALS_FILE"
SCHEMA = Path(__file__).with_name("journals.schema.json")
"""Made from the models of the applications by `make schemas`; DAGs do not import the library."""
_UNSHARED = "x-keyspaces"
"""The keyword of the schema with the keyspaces that only one journal may have."""


class _Loader(yaml.SafeLoader):
    """Reads `on` and `off` as texts, as the applications do: no key is a boolean."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def journals() -> list[AirflowJournal]:
    """Return `default`, and the journals of the file whose entries can be used."""
    return [OF_ENVIRONMENT, *_read()[0]]


def journals_with_tag_views() -> list[AirflowJournal]:
    """Return the journals that have tag views: those in Cassandra."""
    return [journal for journal in journals() if journal.has_tag_views]


def require_usable() -> None:
    """Require that every entry of the file can be used.

    Raises:
        ValueError: with a line for each entry that cannot; Airflow shows it as an import error.
    """
    if problems := _read()[1]:
        raise ValueError("\n".join(problems))


def _read() -> tuple[list[AirflowJournal], list[str]]:
    """Return the journals of the file, and a line for each problem."""
    configured = os.environ.get(FILE)
    file = Path(configured) if configured else home() / "include" / "journals.yaml"
    if not file.is_file():
        missing = f"there is no file {file}; set {FILE} to the file of the journals"
        return [], [missing] if configured else []
    try:
        content = yaml.load(file.read_bytes(), _Loader)  # noqa: S506  a safe loader
    except yaml.YAMLError as error:
        return [], [f"{' '.join(str(error).split())} ({file}); correct it"]
    schema = json.loads(SCHEMA.read_text("utf-8"))
    entries = content.get("journals") if isinstance(content, dict) else None
    if not isinstance(entries, dict) or len(content) > 1:
        return [], [f"the file is not `journals:` with an entry for each journal ({file})"]
    form = schema["$defs"]["JournalEntry"]
    check = Draft202012Validator({**form, "$defs": schema["$defs"]})
    [name_pattern] = schema["properties"]["journals"]["patternProperties"]
    found: list[AirflowJournal] = []
    # The applications compare an entry with all entries before it, whether they can be used or not.
    earlier = [OF_ENVIRONMENT]
    problems = []
    for name, entry in entries.items():
        problem = (
            _problem_of_name(str(name), name_pattern)
            or next(map(_text, check.iter_errors(entry)), None)
            or _shared(entry, earlier, form[_UNSHARED])
        )
        if isinstance(entry, dict):
            earlier.append(AirflowJournal(str(name), entry))
        if problem is None:
            found.append(AirflowJournal(name, entry))
        else:
            what = f"the journal {name} has no DAGs: {problem}"
            problems.append(f"{what} ({file}); correct its entry, see docs/journals.md")
    return found, problems


def _problem_of_name(name: str, pattern: str) -> str | None:
    if name == DEFAULT:
        return "default is the journal of the environment's variables"
    is_usable = re.fullmatch(pattern, name)
    return None if is_usable else "a name has lower-case letters, digits, _ and -"


def _text(error: ValidationError) -> str:
    """Return the fault of an entry, in one line."""
    if error.validator == "additionalProperties":
        known = list(error.schema["properties"])
        [first, *_] = [str(key) for key in error.instance if key not in known]
        near = get_close_matches(first, known, 1)
        return f"unknown key {first}" + (f", did you mean {near[0]}?" if near else "")
    place = ".".join(map(str, error.absolute_path))
    return f"{place}: {error.message}" if place else str(error.message)


def _shared(
    entry: Mapping[str, Any], others: list[AirflowJournal], unshared: Mapping[str, str]
) -> str | None:
    """Return which keyspace is that of another journal, which would share locks or tables."""
    for other in others:
        taken = dict(_keyspaces(other, unshared))
        for keyspace, key in _keyspaces(AirflowJournal("", entry), unshared):
            if keyspace in taken:
                return f"{key}: the journal {other.name} has {keyspace[0]}, too"
    return None


def _keyspaces(
    journal: AirflowJournal, unshared: Mapping[str, str]
) -> Iterator[tuple[tuple[str, str, str], str]]:
    """Yield the keyspaces of a journal with their cluster, and the key of each.

    `unshared` are their keys, with the defaults of the environment.
    """
    entry = journal.entry
    cluster = (
        str(entry.get("cassandra-connection", CASSANDRA)),
        str(entry.get("cassandra-hosts", "")),
    )
    for key, default in unshared.items():
        variable = f"TIDEMARK_{key.replace('-', '_').upper()}"
        keyspace = journal.setting(variable, default if journal is OF_ENVIRONMENT else "")
        if keyspace:
            yield (keyspace, *cluster), key
