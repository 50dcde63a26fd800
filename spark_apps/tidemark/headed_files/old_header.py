"""Refusal of headers of the form before 0.1.0, lines of `-- key: value`, with their YAML form.

A value that has no YAML form is passed on as it is; the error on the YAML form then names the
remedy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tidemark.errors import DefinitionError

_KEY = re.compile(r"--\s([\w-]+):(.*)")
_CONTINUED = re.compile(r"--\s{2,}(\S.*)")
_PART = re.compile(
    r"""(?:[^][(){},'"`] | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*`
        | [([{] (?: [^][(){}'"] | '[^']*' | "[^"]*" | [([{][^][(){}]*[])}] )* [])}] | [^,] )+""",
    re.VERBOSE | re.DOTALL,
)
"""A part between commas that are outside of quotes and parentheses."""
_WORD = re.compile(r"(?:[^\s']|'(?:[^']|'')*')+")
_RULE = re.compile(r"(?:(?P<id>-?\d+)(?:/(?P<manifest>\S+))?\s+)?(?P<kind>[\w-]+)\s*(?P<rest>.*)")
_ARGUMENTS = {
    "string": ("field",),
    "bytes": ("field",),
    "avro": ("schema",),
    "protobuf": ("descriptors", "message"),
    "python": ("function",),
}
_RETRY = re.compile(r"(retry-and-(?:skip|fail))\s+(\d+)\s+(\d+)\s*(ms|s|min)")
_SOURCES = {"messages of": "entity-types", "tags": "tags", "persistence-ids": "persistence-ids"}


class OldHeader(DefinitionError):
    """A header of the form that is no longer read; `do` ends with its YAML form in lines."""

    def __str__(self) -> str:
        return f"{self.what} ({self.where}); {self.do}"


def refuse(file: Path, text: str) -> None:
    """Refuse a text that begins with a header of the old form.

    Raises:
        OldHeader: the text begins with a header of the old form.
    """
    header: dict[str, str] = {}
    for line in text.splitlines():
        if match := _KEY.fullmatch(line):
            header[match[1]] = match[2].strip()
        elif header and (match := _CONTINUED.fullmatch(line)):
            header[next(reversed(header))] += f" {match[1].strip()}"
        elif header or not line.startswith("--"):
            break
    if header.keys() & {"name", "tag"}:
        form = yaml_form(header)
        do = f"put this in the place of its lines:\n\n{form}"
        raise OldHeader("a header is YAML in a comment now", where=f"{file}:1", do=do)


def yaml_form(header: Mapping[str, str]) -> str:
    """Return the front matter that means the same as a header of the old form."""
    lines = []
    for key, value in header.items():
        form = _CONVERSIONS.get(key, _scalar)(value)
        # Write each item of a list or mapping on its own line, and the item's content on that line.
        flow = None if isinstance(form, list | dict) else False
        lines.append(
            yaml.safe_dump(
                {"decoders" if key == "decoder" else key: form},
                default_flow_style=flow,
                sort_keys=False,
                allow_unicode=True,
                width=96,
            )
        )
    return f"/*---\n{''.join(lines)}---*/"


def _scalar(text: str) -> str | int:
    return int(text) if text.isdecimal() else text


def _parts(text: str) -> list[str]:
    return [part.strip() for part in _PART.findall(text) if part.strip()]


def _unquoted(text: str) -> str:
    return re.sub(r"'((?:[^']|'')*)'", lambda match: match[1].replace("''", "'"), text)


def _source(text: str) -> Any:
    for kind, key in _SOURCES.items():
        if text.startswith(f"{kind} "):
            names = _parts(text.removeprefix(kind))
            return {key: [_unquoted(name) if key == "persistence-ids" else name for name in names]}
    kind, _, topic = text.partition(" ")
    return {kind: topic.strip()} if kind == "kafka-journal" else text


def _rule(text: str) -> Any:
    match = _RULE.fullmatch(text)
    if match is None or not (match["id"] or match["rest"]):
        return text
    rule: dict[str, Any] = {}
    if match["id"]:
        rule["serializer-id"] = int(match["id"])
    if match["manifest"]:
        rule["manifest"] = _unquoted(match["manifest"])
    words = [_unquoted(word) for word in _WORD.findall(match["rest"])]
    names = _ARGUMENTS.get(match["kind"], ())
    return {**rule, "kind": match["kind"], **dict(zip(names, words, strict=False))}


def _check(text: str) -> Any:
    if match := re.fullmatch(r"warn\s+(.+)", text, re.IGNORECASE | re.DOTALL):
        return {"warn": _check(match[1])}
    if match := re.fullmatch(r"not\s+null\s+(.+)", text, re.IGNORECASE | re.DOTALL):
        return {"not-null": match[1]}
    if match := re.fullmatch(r"unique\s*\((.+)\)", text, re.IGNORECASE | re.DOTALL):
        return {"unique": _parts(match[1])}
    return text


def _on_error(text: str) -> Any:
    match = _RETRY.fullmatch(text)
    if match is None:
        return text
    strategy, retries, delay, unit = match.groups()
    return {"strategy": strategy, "retries": int(retries), "retry-delay": f"{delay} {unit}"}


_CONVERSIONS: Mapping[str, Callable[[str], Any]] = {
    "source": _source,
    "decoder": lambda text: [_rule(part) for part in _parts(text)],
    "checks": lambda text: [] if text == "none" else [_check(part) for part in _parts(text)],
    "key": _parts,
    "on-error": _on_error,
}
