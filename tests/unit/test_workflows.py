"""GitHub's workflows and the hooks before a commit: they call what `make` calls."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.repository import REPOSITORY

WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (REPOSITORY / "Makefile").read_text()
TARGETS = {
    "push": ["lint", "typing", "unit"],
    "nightly": ["test", "long"],
    "weekly": ["soak"],
}


def steps(workflow: Path) -> list[dict[str, Any]]:
    """Return the steps of all jobs, once for each value of a job's matrix."""
    found = []
    for job in yaml.safe_load(workflow.read_text())["jobs"].values():
        for value in job.get("strategy", {}).get("matrix", {}).get("target", [""]):
            for step in job["steps"]:
                text = step.get("run", "").replace("${{ matrix.target }}", value)
                found.append({**step, "run": text})
    return found


def test_each_workflow_calls_its_targets_of_make() -> None:
    called = {
        workflow.stem: [
            step["run"].removeprefix("make ") for step in steps(workflow) if step["run"]
        ]
        for workflow in WORKFLOWS
    }
    assert called == TARGETS
    for target in (target for targets in TARGETS.values() for target in targets):
        assert re.search(rf"^{target}:.*##", MAKEFILE, re.M), target


def test_actions_are_pinned_to_a_commit_and_may_only_read() -> None:
    for workflow in WORKFLOWS:
        actions = [step["uses"] for step in steps(workflow) if "uses" in step]
        assert actions
        assert [one for one in actions if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one)] == []
        assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}


def test_workflows_and_hooks_are_of_the_form_that_their_programs_read() -> None:
    scripts = Path(sys.executable).parent
    checks: list[list[str | Path]] = [
        [scripts / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS],
        [scripts / "pre-commit", "validate-config", REPOSITORY / ".pre-commit-config.yaml"],
    ]
    for check in checks:
        ended = subprocess.run(check, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stdout + ended.stderr


HOOKS = [
    hook
    for repository in yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repository["hooks"]
]
PACKAGES = {"detect-secrets-hook": "detect-secrets", "python": "pyyaml"}
"""The package of each program whose name is another one."""


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_each_hook_is_a_program_that_is_locked(hook: dict[str, Any]) -> None:
    assert hook["language"] == "system"
    program = re.match(r"\.venv/bin/([a-z-]+) ?", hook["entry"])
    assert program
    name = PACKAGES.get(program[1], program[1])
    lock = (REPOSITORY / "requirements-dev.lock").read_text()
    assert re.search(rf"^{name}==\S+ \\$", lock, re.M), name


def test_what_make_checks_is_checked_before_a_commit() -> None:
    programs = {hook["entry"].split()[0] for hook in HOOKS}
    checks = re.findall(r"^(?:lint|typing):.*\n((?:\t.*\n)+)", MAKEFILE, re.M)
    in_make = set(re.findall(r"\.venv/bin/[a-z-]+", "".join(checks)))
    # It reads all modules, and takes as long for one as for all.
    assert in_make - programs == {".venv/bin/lint-imports"}
