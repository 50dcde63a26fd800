"""The commands in README and docs: each is one that there is, with options that it takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.command_lines import command_line
from tests.docs_commands import PAGES, ROOT, commands

COMMANDS = sorted((page.name, command) for page in PAGES for command in commands(page))
APPLICATIONS = [pair for pair in COMMANDS if not pair[1].startswith("make ")]
TARGETS = [pair for pair in COMMANDS if pair[1].startswith("make ")]


def test_there_are_commands() -> None:
    assert len(APPLICATIONS) > 30
    assert len(TARGETS) > 5


@pytest.mark.parametrize(("page", "command"), APPLICATIONS)
def test_application_takes_what_the_docs_give_it(page: str, command: str) -> None:
    command = re.sub(r"\s(\.\.\.|…).*", "", command)
    program, *arguments = shlex.split(command)
    line = command_line(Path(program).stem)
    while arguments and arguments[0] in getattr(line, "commands", {}):
        line = line.commands[arguments.pop(0)]
    line.make_context(program, list(arguments), resilient_parsing=True)
    options = {option for parameter in line.params for option in parameter.opts}
    given = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    assert given <= options | {"--help"}


@pytest.mark.parametrize(("page", "command"), TARGETS)
def test_make_has_the_target(page: str, command: str) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    words = shlex.split(command)[1:]
    assert [word for word in words if "=" not in word and word not in targets] == []


def test_every_link_of_the_docs_leads_somewhere() -> None:
    missing = []
    for page in [*PAGES, ROOT / "benchmarks" / "README.md"]:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
            if not (page.parent / target).exists():
                missing.append(f"{page.name}: {target}")
    assert missing == []


def test_every_proof_of_a_guarantee_is_a_test() -> None:
    page = ROOT / "docs" / "guarantees.md"
    proofs = re.findall(r"\[`(test_\w+)`\]\(([^)]+)\)", page.read_text())
    assert len(proofs) > 20
    missing = [
        name
        for name, target in proofs
        if not re.search(rf"^(?:async )?def {name}\b", (page.parent / target).read_text(), re.M)
    ]
    assert missing == []
