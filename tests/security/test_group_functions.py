"""Which code an event group can name as a function, and what the process of a function can read.

Nothing of a module that is rejected may be executed: each such module here leaves a file behind
when it is imported.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.event_groups.test_libraries import wheel
from tests.integration.support import ROOT
from tidemark.event_groups.external.libraries import Libraries
from tidemark.event_groups.external.processes import Functions, environment_for_others
from tidemark.event_groups.failure import EventFailed
from tidemark.settings import Settings

PATIENCE_S = 60
LANDLOCK = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1)
"""The version that the kernel has of it; negative: none."""
EXECUTED = "from pathlib import Path\nPath(r'{}').touch()\n"


@pytest.fixture
def executed(tmp_path: Path) -> Path:
    """Return a file that exists once a module has been executed that must not be."""
    return tmp_path / "executed"


@pytest.fixture
def directory(tmp_path: Path, executed: Path) -> Path:
    """Return a directory of modules, of which `allowed` is the only one that defines functions."""
    folder, outside = tmp_path / "functions", tmp_path / "outside"
    trace = EXECUTED.format(executed)
    for place in ("package", "linked"):
        (folder / place).mkdir(parents=True)
    outside.mkdir()
    files = {
        folder / "allowed.py": ALLOWED,
        folder / "reexports.py": f"{trace}from os import system\n",
        folder / "shop" / "rates.py": "def today(_):\n    return 7\n",
        folder / "package" / "__init__.py": f"{trace}from package.inner import of\n",
        folder / "package" / "inner.py": "def of(_):\n    return 1\n",
        folder / "effects.py": f"{trace}def other(_):\n    return 1\n",
        folder / "assigned.py": f"{trace}of = lambda _: 1\n",
        folder / "a_class.py": f"{trace}class Of:\n    def __init__(self, _): pass\n",
        folder / "nested.py": f"{trace}if True:\n    def of(_):\n        return 1\n",
        folder / "awaited.py": f"{trace}async def of(_):\n    return 1\n",
        folder / "private.py": f"{trace}def __getattr__(_):\n    return 1\n",
        folder / "json.py": f"{trace}def of(_):\n    return 1\n",
        folder / "time.py": f"{trace}def of(_):\n    return 1\n",
        folder / "pip" / "of.py": f"{trace}def of(_):\n    return 1\n",
        folder / "broken.py": f"{trace}def of(:\n",
        outside / "foreign.py": f"{trace}def of(_):\n    return 1\n",
        outside / "__init__.py": trace,
    }
    for file, text in files.items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    (folder / "link.py").symlink_to(outside / "foreign.py")
    (folder / "linked_package").symlink_to(outside)
    (folder / "inside.py").symlink_to(folder / "allowed.py")
    (folder / "compiled.so").write_bytes(b"")
    return folder


ALLOWED = """
import functools
from os import system
import json

def of(argument):
    return json.dumps(argument)

@functools.cache
def cached(argument):
    return 2

def replaced(argument):
    return 3

replaced = system

@functools.partial
def foreign(argument):
    return 4

class Own:
    def __init__(self, function):
        pass

    def __call__(self, argument):
        return 5

@Own
def decorated(argument):
    return 6
"""


@pytest.fixture
def functions(directory: Path) -> Iterator[Functions]:
    """Yield the functions of the directory."""
    with closing(Functions(lambda: {directory: ""})) as made:
        yield made


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("os:system", "there is no module os in"),
        ("posix:system", "there is no module posix in"),
        ("subprocess:Popen", "there is no module subprocess in"),
        ("venv:main", "there is no module venv in"),
        ("http.server:test", "there is no module http.server in"),
        ("pyspark.shell:x", "there is no module pyspark.shell in"),
        ("py4j.java_gateway:launch_gateway", "there is no module py4j.java_gateway in"),
        ("builtins:exec", "there is no module builtins in"),
        ("importlib:import_module", "there is no module importlib in"),
        ("worker:main", "there is no module worker in"),
        ("antigravity:fly", "there is no module antigravity in"),
        ("..outside.foreign:of", "it is not written `module:function`"),
        ("../outside/foreign:of", "it is not written `module:function`"),
        ("/etc/passwd:of", "it is not written `module:function`"),
        ("allowed", "it is not written `module:function`"),
        ("reexports:system", "reexports.py has no `def system` at its top level"),
        ("allowed:system", "allowed.py has no `def system` at its top level"),
        ("allowed:json.dumps", "it is not written `module:function`"),
        ("allowed:replaced", "allowed.py replaces the function after its `def`"),
        ("allowed:foreign", "its decorator does so without functools.wraps"),
        ("package:of", "__init__.py has no `def of` at its top level"),
        ("effects:absent", "effects.py has no `def absent` at its top level"),
        ("assigned:of", "assigned.py has no `def of` at its top level"),
        ("a_class:Of", "a_class.py has no `def Of` at its top level"),
        ("nested:of", "nested.py has no `def of` at its top level"),
        ("awaited:of", "awaited.py has no `def of` at its top level"),
        ("private:__getattr__", "names that begin with _ are private"),
        ("package.__init__:of", "names that begin with _ are private"),
        ("allowed:__builtins__", "names that begin with _ are private"),
        ("json:of", "Python finds another json before"),
        ("time:of", "Python finds another time before"),
        ("pip.of:of", "Python finds another pip before"),
        ("link:of", "link.py is not a Python file below"),
        ("linked_package.foreign:of", "linked_package/__init__.py is not a Python file below"),
        ("linked_package:of", "linked_package/__init__.py is not a Python file below"),
        ("compiled:of", "compiled.so is not a Python file below"),
        ("broken:of", "SyntaxError"),
        ("absent:of", "there is no module absent in"),
        ("shop:of", "there is no module shop in"),
        ("shop.absent:of", "there is no module shop.absent in"),
        ("allowed.of:of", "there is no module allowed.of in"),
    ],
)
def test_what_the_directory_does_not_define_is_rejected_and_not_executed(
    functions: Functions, executed: Path, name: str, says: str
) -> None:
    for attempt in (
        lambda: functions.require(name, PATIENCE_S),
        lambda: functions.call(name, "{}", PATIENCE_S),
    ):
        with pytest.raises(EventFailed) as rejected:
            attempt()
        assert says in str(rejected.value)
        assert "\n" not in str(rejected.value)
    assert not executed.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("allowed:of", "null"),
        ("allowed:cached", "2"),
        ("allowed:decorated", "5"),
        ("inside:of", "null"),
        ("shop.rates:today", "7"),
        ("effects:other", "1"),
        ("package.inner:of", "1"),
    ],
)
def test_what_the_directory_defines_is_called(functions: Functions, name: str, value: str) -> None:
    assert functions.call(name, "null", PATIENCE_S) == value


def test_a_module_that_replaces_an_installed_one_is_found_by_its_directory_alone(
    directory: Path, tmp_path: Path
) -> None:
    """The directories come before installed packages, and after Python's own modules."""
    (directory / "requests.py").write_text("import csv\n\ndef of(_):\n    return csv.QUOTE_ALL\n")
    (directory / "csv.py").write_text("raise ValueError('it hides the csv of Python')\n")
    with closing(Functions(lambda: {directory: ""})) as functions:
        assert functions.call("requests:of", "null", PATIENCE_S) == "1"


def test_of_a_library_only_its_own_functions_are_called(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    own = {"shop_rules/__init__.py": "", "shop_rules/notes.py": "def of(_):\n    return 1\n"}
    wheel(wheels, "shop_rules", "1", own, "shop-base==1")
    wheel(wheels, "shop_base", "1", {"shop_base.py": "def of(_):\n    return 2\n"})
    settings = Settings(
        event_group_libraries="shop-rules",
        event_group_wheels_dir=wheels,
        event_group_library_dir=tmp_path / "libraries",
    )
    library = Libraries(settings).fetch("shop-rules", "1")
    place = Libraries(settings).directory(library)
    # The libraries may lie below the functions.
    for places in ({place: "shop-rules"}, {tmp_path: "", place: "shop-rules"}):
        with closing(Functions(lambda places=places: places)) as functions:  # type: ignore[misc]
            assert functions.call("shop_rules.notes:of", "null", PATIENCE_S) == "1"
            with pytest.raises(
                EventFailed, match=r"shop_base\.py is not a module of shop-rules itself"
            ):
                functions.require("shop_base:of", PATIENCE_S)


READS = """
import json
import os
import sys
from pathlib import Path


def environment(_):
    return json.dumps(dict(os.environ))


def state(_):
    files = {int(name) for name in os.listdir("/proc/self/fd")}
    return json.dumps([os.getcwd(), sorted(files), sys.path])


def parents(_):
    read, process = {}, os.getpid()
    for generation in ("parent", "grandparent"):
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        for name in ("environ", "maps", "mem"):
            try:
                Path(f"/proc/{process}/{name}").open("rb").close()
            except OSError as error:
                read[f"{name} of its {generation}"] = error.strerror
            else:
                read[f"{name} of its {generation}"] = "read"
    return json.dumps(read)
"""
"""Functions that return what their process has, and can read of its parent."""


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[Functions]:
    """Yield the functions of READS."""
    (tmp_path / "reads.py").write_text(READS)
    with closing(Functions(lambda: {tmp_path: ""})) as made:
        yield made


NOT_PASSED = (
    *("PYSPARK_GATEWAY_SECRET", "PYSPARK_GATEWAY_PORT", "TIDEMARK_CASSANDRA_PASSWORD"),
    *("AIRFLOW__CORE__FERNET_KEY", "_AIRFLOW_WWW_USER_PASSWORD", "AWS_SECRET_ACCESS_KEY"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "PIP_INDEX_URL", "KRB5CCNAME", "PYTHONPATH"),
    *("JAVA_TOOL_OPTIONS", "LD_PRELOAD", "MY_PATH", "PATH_TO_SECRET", "SECRET_LANG"),
)
PASSED = {
    "HTTPS_PROXY": "http://proxy.example.com",
    "no_proxy": "127.0.0.1",
    "SSL_CERT_FILE": "/etc/certificates.pem",
    "LC_NUMERIC": "C",
    "TZ": "UTC",
}


def test_a_function_gets_the_listed_variables_only(
    reading: Functions, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (dict.fromkeys(NOT_PASSED, "hunter2") | PASSED).items():
        monkeypatch.setenv(name, value)
    environment = json.loads(reading.call("reads:environment", "null", PATIENCE_S))
    assert environment.keys() & set(NOT_PASSED) == set()
    assert environment.items() >= PASSED.items()
    assert environment["PATH"] == os.environ["PATH"]
    assert "hunter2" not in str(environment)


def test_pip_and_java_get_their_own_settings_beside_these(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in NOT_PASSED:
        monkeypatch.setenv(name, "hunter2")
    of_pip = environment_for_others("PIP_").keys() - environment_for_others().keys()
    assert "PIP_INDEX_URL" in of_pip
    assert {name for name in of_pip if not name.startswith("PIP_")} == set()


def test_a_function_has_no_open_files_and_no_directory_of_its_run(reading: Functions) -> None:
    with Path("/dev/null").open() as opened:
        os.set_inheritable(opened.fileno(), True)
        state = json.loads(reading.call("reads:state", "null", PATIENCE_S))
    directory, files, path = state
    assert directory == "/"
    # Its three streams, the answers, and the directory that is being listed.
    assert files == [0, 1, 2, 3, 4]
    assert not {str(Path.cwd()), "", "."} & set(path)


WITHOUT_RIGHTS = """
import ctypes
import os
import sys

# Without capabilities root is a user like others, but for the owner of this interpreter's files.
DAC_OVERRIDE, DAC_READ_SEARCH, PR_CAPBSET_DROP = 1, 2, 24
for capability in range(64):
    if capability not in (DAC_OVERRIDE, DAC_READ_SEARCH):
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""
GRANDPARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
PARENT = """
import sys
from contextlib import closing
from pathlib import Path

from tidemark.event_groups.external.processes import Functions

with closing(Functions(lambda: {Path(sys.argv[1]): ""})) as functions:
    print(functions.call("reads:parents", "null", 60))
"""
"""The processes of a run under spark-submit, by their generations: JVM, driver, function."""


@pytest.mark.skipif(LANDLOCK < 2, reason="this kernel has no Landlock, or its first version")
@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize("launcher", [[WITHOUT_RIGHTS, GRANDPARENT], [GRANDPARENT]])
def test_a_function_cannot_read_the_memory_or_the_environment_of_its_run(
    tmp_path: Path, launcher: list[str]
) -> None:
    """As a user like others, and as the user of the tests, which may be root."""
    command = [sys.executable, "-c", *launcher, PARENT, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "spark_apps")}
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    read: dict[str, str] = json.loads(ended.stdout)
    assert len(read) == 6
    assert set(read.values()) == {"Permission denied"}
