"""Which Python an event group may call, and what its process gets of the driver's environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tidemark.event_groups.execution.failure import EventFailed
from tidemark.event_groups.outside import processes
from tidemark.event_groups.outside.processes import Functions, environment_for_others

TIMEOUT_S = 60
FILES = {
    "own.py": "def good(row):\n    return row['a']\n\nasync def later(row):\n    pass\n"
    "class Maker:\n    pass\nanonymous = lambda row: row\nfrom os import system\n"
    "def taken(row):\n    pass\nfrom shutil import copy as taken\n",
    "wrapped.py": "import functools\ndef loud(f):\n    @functools.wraps(f)\n    def g(row):\n"
    "        return f(row) + 1\n    return g\n@loud\ndef once(row):\n    return 0\n",
    "marks.py": "from pathlib import Path\nPath(__file__).with_name('imported').touch()\n",
    "json.py": "def dumps(row):\n    return 1\n",
    "package/__init__.py": "from os import system\nfrom package.inner import inside\n",
    "package/inner.py": "def inside(row):\n    return 2\n",
    "plain/inner.py": "def inside(row):\n    return 3\n",
    "pip/local.py": "def inside(row):\n    return 4\n",
    "broken.py": "def f(row)\n",
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    place = tmp_path / "functions"
    for name, text in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "stolen.py").write_text("def f(row):\n    return 1\n")
    (place / "linked.py").symlink_to(outside / "stolen.py")
    (place / "folder").symlink_to(outside)
    return place


@pytest.fixture
def functions(directory: Path) -> Iterator[Functions]:
    with closing(Functions(lambda: [directory])) as functions:
        yield functions


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("own:good", "5"),
        ("wrapped:once", "1"),
        ("package.inner:inside", "2"),
        ("plain.inner:inside", "3"),
    ],
)
def test_a_function_of_the_directory_is_called(functions: Functions, name: str, value: str) -> None:
    functions.require(name, TIMEOUT_S)
    assert functions.call(name, json.dumps({"a": 5}), TIMEOUT_S) == value


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("os:system", "os is a module of Python"),
        ("subprocess:Popen", "subprocess is a module of Python"),
        ("venv:main", "venv is a module of Python"),
        ("http.server:test", "http is a module of Python"),
        ("builtins:exec", "builtins is a module of Python"),
        ("importlib:import_module", "importlib is a module of Python"),
        ("json:dumps", "json is a module of Python; give the file another name"),
        ("pyspark.shell:x", "there is no file pyspark/shell.py below"),
        ("pip:main", "there is no file pip.py below"),
        ("pip.local:inside", "there is no file pip/local.py below"),
        ("nothing:f", "there is no file nothing.py below"),
        ("own:system", "own.py has no line `def system(...):`"),
        ("own:anonymous", "own.py has no line `def anonymous(...):`"),
        ("own:Maker", "own.py has no line `def Maker(...):`"),
        ("own:later", "own.py has no line `def later(...):`"),
        ("own:__builtins__", "own.py has no line"),
        ("own:taken", "own.py puts something else in place of taken"),
        ("package:system", "__init__.py has no line `def system(...):`"),
        ("package:inside", "__init__.py has no line `def inside(...):`"),
        ("marks:f", "marks.py has no line `def f(...):`"),
        ("linked:f", "there is no file linked.py below"),
        ("folder.stolen:f", "there is no file folder/stolen.py below"),
        ("broken:f", "SyntaxError: expected ':'"),
    ],
)
def test_anything_else_is_rejected(
    functions: Functions, directory: Path, name: str, why: str
) -> None:
    for attempt in (
        lambda: functions.require(name, TIMEOUT_S),
        lambda: functions.call(name, "{}", TIMEOUT_S),
    ):
        with pytest.raises(EventFailed) as refusal:
            attempt()
        assert why in str(refusal.value)
    assert not (directory / "imported").exists()


def test_other_processes_get_only_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {
        "TIDEMARK_CASSANDRA_PASSWORD", "AIRFLOW__CORE__FERNET_KEY", "PYSPARK_GATEWAY_SECRET",
        "PYSPARK_GATEWAY_PORT", "_PYSPARK_DRIVER_CALLBACK_HOST", "AWS_SECRET_ACCESS_KEY",
        "SPARK_AUTH_SECRET", "_SPARK_AUTH_SECRET", "PYTHONPATH", "GITHUB_TOKEN", "XPATH",
    }  # fmt: skip
    needed = {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "HTTPS_PROXY", "https_proxy", "JAVA_HOME"}
    for name in (*secrets, *needed, "PIP_INDEX_URL"):
        monkeypatch.setenv(name, "x")
    assert environment_for_others().keys() & {*secrets, *needed, "PIP_INDEX_URL"} == needed
    assert environment_for_others(also="PIP_").keys() & secrets == set()
    assert "PIP_INDEX_URL" in environment_for_others(also="PIP_")


def test_a_function_sees_this_environment(functions: Functions, directory: Path) -> None:
    (directory / "seen.py").write_text(
        "import os\ndef names(row):\n    return sorted(os.environ)\n"
    )
    names = functions.call("seen:names", "{}", TIMEOUT_S)
    assert set(names) - {*environment_for_others(), "PYTHONDONTWRITEBYTECODE", "LC_CTYPE"} == set()


PARENT = """
import os, subprocess, sys
if sys.argv[1] == "hidden":
    sys.path.insert(0, "/")
    {hide}
    hide_environment()
read = "import os; open(f'/proc/{{os.getppid()}}/environ', 'rb').read(); print('read')"
child = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True)
print(child.stdout or child.stderr.splitlines()[-1])
"""


@pytest.mark.parametrize(("how", "says"), [("as it was", "read"), ("hidden", "PermissionError")])
def test_a_process_of_the_same_user_does_not_read_the_environment(
    tmp_path: Path, how: str, says: str
) -> None:
    """Root reads everything: as root, the two processes are another user's."""
    source = Path(processes.__file__).read_text()
    start = source.index("def hide_environment")
    hide = "import ctypes\n_PR_SET_DUMPABLE = 4\n" + source[start : source.index("\n\n\n", start)]
    script = PARENT.format(hide=hide.replace("\n", "\n    "))
    is_root = os.geteuid() == 0
    # What root has installed for itself, nobody else may start.
    for_all = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    python = str(for_all) if is_root else sys.executable
    ran = subprocess.run(
        [python, "-c", script, how],
        capture_output=True,
        text=True,
        cwd="/",
        env={"TIDEMARK_CASSANDRA_PASSWORD": "secret"},
        user="nobody" if is_root else None,
        group="nogroup" if is_root else None,
        extra_groups=[] if is_root else None,
    )
    assert says in ran.stdout, ran.stderr
