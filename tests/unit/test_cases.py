"""The list of named cases, with which CASES.md must agree."""

from __future__ import annotations

import pytest

from tests import cases
from tests.unit import test_upstream_cases


def test_cases_md_is_what_the_script_makes() -> None:
    assert cases.TABLE.read_text() == cases.table(), "run `python -m tests.cases`"


def test_every_case_that_is_tested_by_name_is_in_the_list() -> None:
    named = {test for case in cases.cases() for test in cases.TEST.findall(case.where)}
    written = {f"{cases.BY_NAME}[{name}]" for name in test_upstream_cases.CASES}
    assert written <= named


@pytest.mark.parametrize(
    "line", ["a case without a test", "a case | tests/unit/test_cases.py::test_of_nothing"]
)
def test_a_case_whose_test_does_not_exist_is_refused(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    file = tmp_path_factory.mktemp("list") / "list.txt"
    file.write_text(f"[a spec]\n{line}\n")
    monkeypatch.setattr(cases, "LIST", file)
    with pytest.raises(ValueError, match="there is no test tests/unit/test_"):
        list(cases.cases())
