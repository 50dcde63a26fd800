"""Which test files a change selects: those of small repositories, and those of this one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import grimp
import pytest

from tests.imports import modules_imported, with_imported_files
from tests.repository import REPOSITORY
from tests.scheduling.affected import (
    ALL_TESTS,
    OF_THE_TREE,
    Dependencies,
    changed_since,
    choose,
    read,
)
from tests.scheduling.references import Repository
from tests.unit.scheduling.conftest import Run

TREE = {
    "spark_apps/tidemark/__init__.py": "from typing import TYPE_CHECKING\n"
    "if TYPE_CHECKING:\n    from tidemark.builder import Group\n",
    "spark_apps/tidemark/builder.py": "import tidemark.rows\n",
    "spark_apps/tidemark/rows.py": "",
    "spark_apps/tidemark/wide/__init__.py": "from tidemark import rows\n",
    "spark_apps/tidemark/wide/inner.py": "",
    "spark_apps/tidemark/command_line/a.py": "",
    "spark_apps/tidemark/files.py": 'A = users_files("sql/tagging")\n',
    "spark_apps/tag_write.py": "from tidemark.command_line import a\n",
    "spark_apps/purge.py": "",
    "plugins/tidemark_airflow/tasks.py": "",
    "plugins/tidemark_airflow/operators.py": 'def run(n): home() / "spark_apps" / f"{n}.py"\n',
    "dags/one.py": "from tidemark_airflow import operators\n",
    "embedded/__main__.py": "import embedded.server\n",
    "embedded/server.py": "",
    "include/sql/tagging/rule.sql": "",
    "include/sql/schema/pekko.cql": "",
    "docs/a.md": "",
    "docs/b.md": "",
    "Makefile": "",
    "tests/conftest.py": 'HOMES = ("purge",)\n',
    "tests/live/conftest.py": "from tests.support import x\n",
    "tests/unit/data/a.tsv": "",
    "tests/support.py": 'def f(name): return ROOT / "spark_apps" / f"{name}.py"\n',
}
"""A small repository without its test files."""


def needed(text: str, file: str = "tests/unit/test_one.py") -> set[str]:
    """Return what a test file needs, without itself and the first conftest."""
    repository = Repository({**TREE, file: text})
    return Dependencies(repository).of(file) - {file, "tests/conftest.py"}


LIBRARY = "spark_apps/tidemark"
INIT = f"{LIBRARY}/__init__.py"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import json", set()),
        ("from tidemark import rows", {INIT, f"{LIBRARY}/rows.py"}),
        ("from tidemark.rows import row", {INIT, f"{LIBRARY}/rows.py"}),
        ("import tidemark.rows as r", {INIT, f"{LIBRARY}/rows.py"}),
        ("def f():\n    from tidemark.rows import row", {INIT, f"{LIBRARY}/rows.py"}),
        ("from tidemark import Group", {INIT, f"{LIBRARY}/builder.py", f"{LIBRARY}/rows.py"}),
        (
            "from tidemark.wide import inner",
            {INIT, f"{LIBRARY}/wide/__init__.py", f"{LIBRARY}/wide/inner.py", f"{LIBRARY}/rows.py"},
        ),
        ("CODE = 'from tidemark.rows import row'", {INIT, f"{LIBRARY}/rows.py"}),
        ("patch('tidemark.rows.row.method')", {INIT, f"{LIBRARY}/rows.py"}),
        ("f'tidemark.command_line.{name}'", {INIT, f"{LIBRARY}/command_line/a.py"}),
        ("'''tidemark.rows'''", set()),
        ("run([python, '-m', 'embedded'])", {"embedded/__main__.py", "embedded/server.py"}),
        ("journal.run('purge')", {"spark_apps/purge.py"}),
        (
            "SCRIPT = 'tag_write.py'",
            {"spark_apps/tag_write.py", INIT, f"{LIBRARY}/command_line/a.py"},
        ),
        ("self._note('purge')", set()),
        ("from tests.support import f\nf('purge')", {"tests/support.py", "spark_apps/purge.py"}),
        ("from tests.support import f", {"tests/support.py"}),
        (
            "BAG = DagBag(ROOT / 'dags')",
            {
                *("dags/one.py", "plugins/tidemark_airflow/operators.py", "spark_apps/purge.py"),
                *("spark_apps/tag_write.py", INIT, f"{LIBRARY}/command_line/a.py"),
            },
        ),
        ("(ROOT / 'docs' / 'a.md').read_text()", {"docs/a.md"}),
        ("(ROOT / 'docs').glob('*.md')", {"docs/a.md", "docs/b.md"}),
        ("(tmp_path / 'docs').mkdir()", set()),
        ("(ROOT / 'Makefile').read_text()", {"Makefile"}),
        ("Path(__file__).with_name('data')", {"tests/unit/data/a.tsv"}),
        ("Path(__file__).parent / 'data' / 'a.tsv'", {"tests/unit/data/a.tsv"}),
        ("PAGE = 'docs/b.md'", {"docs/b.md"}),
        ("SCHEMA / 'pekko.cql'", {"include/sql/schema/pekko.cql"}),
        ("SHIPPED / 'sql' / 'schema'", {"include/sql/schema/pekko.cql"}),
        (
            "from tidemark import files",
            {INIT, f"{LIBRARY}/files.py", "include/sql/tagging/rule.sql"},
        ),
    ],
)
def test_a_test_file_needs_what_it_imports_starts_and_reads(text: str, expected: set[str]) -> None:
    assert needed(text) == expected


def test_a_test_file_needs_each_conftest_above_it() -> None:
    assert needed("", "tests/live/test_one.py") == {"tests/live/conftest.py", "tests/support.py"}


TESTS = {
    "tests/unit/test_rows.py": "from tidemark import rows\n",
    "tests/unit/test_docs.py": "",
    "tests/unit/test_page.py": "PAGE = ROOT / 'docs' / 'a.md'\n",
    "tests/live/test_live.py": "import tidemark.gone\n",
}


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        ((), set()),
        (("spark_apps/tidemark/rows.py",), {"tests/unit/test_rows.py"}),
        (("docs/a.md",), {"tests/unit/test_page.py"}),
        (("tests/support.py",), {"tests/live/test_live.py"}),
        (("tests/unit/test_page.py",), {"tests/unit/test_page.py"}),
        # A deleted module.
        (("spark_apps/tidemark/gone.py",), {"tests/live/test_live.py"}),
        (("LICENSE",), set()),
        # Nothing says who needs it, and two that all need.
        (("plugins/new.xml",), {*TESTS}),
        (("docs/a.md", "requirements.lock"), {*TESTS}),
        (("tests/conftest.py",), {*TESTS}),
    ],
)
def test_a_change_selects_the_tests_that_need_it(changed: Iterable[str], chosen: set[str]) -> None:
    texts = {**TREE, **TESTS, **{file: "" for file in changed if file not in {*TREE, *TESTS}}}
    choice = choose(changed, Dependencies(Repository(texts)))
    of_the_tree = {"tests/unit/test_docs.py"} if changed else set()
    assert choice.chosen == chosen | of_the_tree
    assert choice.left_out == {*TESTS} - choice.chosen
    assert choice.read_by_none == (("LICENSE",) if changed == ("LICENSE",) else ())


@pytest.fixture(scope="module")
def ours() -> Dependencies:
    return Dependencies(read(REPOSITORY, []))


def test_each_test_file_is_selected_by_each_module_that_it_imports(ours: Dependencies) -> None:
    """The graph of import-linter says what the product's modules import, directly or not."""
    packages = ("tidemark", "tidemark_airflow", "embedded", "examples", "benchmarks")
    graph = grimp.build_graph(*packages, cache_dir=None)
    # Names that the package passes on when they are used.
    for inner in graph.find_modules_directly_imported_by("tidemark"):
        graph.remove_import(importer="tidemark", imported=inner)
    files = {name: file_of_module(name) for name in graph.modules}
    missing: dict[str, list[str]] = {}
    checked = 0
    for test in ours.test_files:
        own = with_imported_files(REPOSITORY / "tests", [REPOSITORY / test])
        modules = set().union(*(modules_imported(file) for file in own)) & graph.modules
        modules = modules.union(*map(graph.find_upstream_modules, modules))
        wanted = {str(file.relative_to(REPOSITORY)) for file in own} | {files[m] for m in modules}
        checked += len(wanted)
        if left := wanted - ours.of(test):
            missing[test] = sorted(left)
    assert missing == {}
    assert checked > 10_000


def file_of_module(name: str) -> str:
    [file] = [
        path
        for house in (REPOSITORY, REPOSITORY / "spark_apps", REPOSITORY / "plugins")
        for path in (
            house.joinpath(*name.split("."), "__init__.py"),
            house.joinpath(*name.split(".")).with_suffix(".py"),
        )
        if path.is_file()
    ]
    return str(file.relative_to(REPOSITORY))


@pytest.mark.parametrize(
    ("changed", "selects"),
    [
        ("spark_apps/tidemark/purge/plan.py", "tests/integration/purge/test_purge.py"),
        ("spark_apps/tidemark/tag_write/plan.py", "tests/faults/test_random_kills.py"),
        ("spark_apps/tidemark/validate/run.py", "tests/dags/test_orders.py"),
        ("dags/purge.py", "tests/dags/test_parsing.py"),
        ("plugins/tidemark_airflow/operators.py", "tests/live/test_defects.py"),
        ("include/sql/schema/pekko.cql", "tests/integration/tag_write/test_tag_write.py"),
        ("docs/settings.md", "tests/unit/test_settings.py"),
        ("Makefile", "tests/unit/test_workflows.py"),
        ("examples/flights/source.py", "tests/integration/test_flights_examples.py"),
        ("Dockerfile", "tests/unit/embedded/test_compose_image.py"),
        ("compose/secrets", "tests/unit/embedded/test_compose_secrets.py"),
        ("tests/interop/client/Main.scala", "tests/interop/test_damage.py"),
        ("tests/integration/support.py", "tests/live/test_defects.py"),
    ],
)
def test_a_change_of_this_repository_selects(
    changed: str, selects: str, ours: Dependencies
) -> None:
    assert (REPOSITORY / changed).is_file()
    assert selects in choose([changed], ours).chosen


def test_a_change_of_one_room_leaves_the_tests_of_others_out(ours: Dependencies) -> None:
    choice = choose(["spark_apps/tidemark/purge/snapshots/rules.py"], ours)
    assert "tests/integration/purge/test_purge.py" in choice.chosen
    assert "tests/unit/partitioning/test_keys.py" in choice.left_out
    assert len(choice.left_out) > len(choice.chosen)


def test_the_rules_name_files_that_exist(ours: Dependencies) -> None:
    assert {*OF_THE_TREE} <= {*ours.test_files}
    assert [pattern for pattern in ALL_TESTS if not [*REPOSITORY.glob(pattern)]] == []


def git(directory: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *identity, *words], cwd=directory, check=True, capture_output=True)


def test_only_what_a_branch_and_its_checkout_changed_is_run(
    pytester: pytest.Pytester, project: Run, write: Callable[[str, str], Path]
) -> None:
    for name in ("one", "two", "three", "four"):
        write(f"embedded/{name}.py", "")
        write(
            f"tests/unit/test_{name}.py",
            f"def test_it(): ...\ndef unused():\n    import embedded.{name}\n",
        )
    write(".gitignore", "state\n__pycache__\nrunpytest-*\nstderr\nstdout\n")
    git(pytester.path, "init", "--initial-branch=main")
    git(pytester.path, "add", ".")
    git(pytester.path, "commit", "--message=first")
    assert changed_since("main", pytester.path) == []
    git(pytester.path, "switch", "--create=branch")
    write("embedded/one.py", "A = 1\n")
    git(pytester.path, "commit", "--all", "--message=second")
    git(pytester.path, "switch", "main")
    write("embedded/three.py", "A = 1\n")
    git(pytester.path, "commit", "--all", "--message=elsewhere")
    git(pytester.path, "switch", "branch")
    (pytester.path / "embedded" / "two.py").unlink()
    write("tests/unit/test_new.py", "def test_new(): ...\n")
    assert changed_since("main", pytester.path) == [
        *("embedded/one.py", "embedded/two.py", "tests/unit/test_new.py")
    ]
    ran = project("--affected", "main", "--numprocesses", "2", "--verbose")
    ran.assert_outcomes(passed=3)
    ran.stdout.fnmatch_lines(
        [
            "affected: 3 of 5 test files, *",
            "left out of tests/unit: four, three",
            "*PASSED tests/unit/test_*.py::test_it*",
        ]
    )
    named = project("--affected", "main", "tests/unit/test_one.py", "tests/unit/test_four.py")
    named.assert_outcomes(passed=1, deselected=1)


def test_a_commit_that_git_does_not_know_is_an_error_in_one_line(
    pytester: pytest.Pytester, project: Run
) -> None:
    git(pytester.path, "init")
    ended = project("--affected", "nowhere")
    assert ended.ret == pytest.ExitCode.USAGE_ERROR
    [line] = [line for line in ended.stderr.lines if line]
    assert line.startswith("ERROR: --affected: git merge-base HEAD nowhere: fatal: ")
