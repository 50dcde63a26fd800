"""Libraries that event groups load: from a group on, each version for itself, and taken back."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.dying import dying_after
from tests.faults.seams import Seam
from tests.integration.contexts import context
from tests.integration.event_groups.test_event_groups import cql, shop, submit
from tests.integration.support import Journal
from tidemark.event_groups.external.libraries import LoadedLibrary
from tidemark.event_groups.stream.libraries import END, LoadedLibraries

__all__ = ["shop"]
LOAD = """
group: load-{version}
events:
  - name: load
    library: {{name: shop-rules, version: {version}}}
  - name: write
    statement: UPDATE <account> SET note = :note WHERE id = '{version}'
    after: [load]
    needs: [{{as: note, call: "shop_rules.notes:note"}}]
"""
USE = """
group: {name}
events:
  - name: write
    statement: UPDATE <account> SET note = :note WHERE id = '{name}'
    needs: [{{as: note, call: "shop_rules.notes:note"}}]
"""
FAIL = """
  - name: fail
    statement: SELECT n FROM <posting> WHERE account = 'ann'
    expect: none
    after: [write]
"""


def wheel(folder: Path, name: str, version: str, files: dict[str, str], *needs: str) -> None:
    """Write a wheel of pure Python."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata += [f"Requires-Dist: {need}" for need in needs]
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    texts = files | {f"{info}/METADATA": "\n".join(metadata), f"{info}/WHEEL": tags}
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for place, text in texts.items():
            archive.writestr(place, text)
        record = "".join(f"{place},,\n" for place in [*texts, f"{info}/RECORD"])
        archive.writestr(f"{info}/RECORD", record)


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """Return the settings of a directory of wheels: shop-rules 1 and 2, and what these need."""
    wheels = tmp_path / "wheels"
    for version in ("1", "2"):
        text = "import shop_base\n\ndef note(_):\n    return f'{VERSION} on {shop_base.VERSION}'\n"
        files = {
            "shop_rules/__init__.py": "",
            "shop_rules/notes.py": f"VERSION = '{version}'\n{text}",
        }
        wheel(wheels, "shop_rules", version, files, f"shop-base=={version}")
        wheel(wheels, "shop_base", version, {"shop_base.py": f"VERSION = '{version}'"})
    wheel(wheels, "shop_rules", "3.0", {"shop_rules.py": ""}, "nowhere-to-be-found")
    (tmp_path / "functions").mkdir()
    return {
        "EVENT_GROUP_FUNCTIONS_DIR": str(tmp_path / "functions"),
        "EVENT_GROUP_LIBRARIES": "Shop_Rules",
        "EVENT_GROUP_WHEELS_DIR": str(wheels),
        "EVENT_GROUP_LIBRARY_DIR": str(tmp_path / "libraries"),
    }


def executed(
    journal: Journal, folder: Path, settings: dict[str, str], *texts: str
) -> dict[str, Any]:
    for text in texts:
        result = submit(journal, folder, text, **settings)
        assert result.status == 0, result.stderr
        journal.run("run_event_groups", **settings)
    notes = cql(journal, "SELECT id, note FROM {account}")
    return {row["id"]: row["note"] for row in notes if row["id"] != "ann"}


def test_groups_use_the_version_that_was_loaded_before_them(
    shop: Journal, tmp_path: Path, settings: dict[str, str]
) -> None:
    notes = executed(
        shop,
        tmp_path,
        settings,
        LOAD.format(version="1"),
        USE.format(name="one"),
        LOAD.format(version="2"),
        USE.format(name="two"),
    )
    first, second = "1 on 1", "2 on 2"
    assert notes == {"1": first, "one": first, "2": second, "two": second}
    rows = shop.own_rows("group_library")
    assert [(row["sequence"], row["version"]) for row in rows] == [(1, "1"), (3, "2")]
    assert all("shop_base" in row["wheels"] for row in rows)


@pytest.mark.long
def test_a_group_that_is_executed_late_uses_what_was_loaded_before_it(journal: Journal) -> None:
    run = context(journal)
    loaded = LoadedLibraries(run, "default")
    versions = {number: LoadedLibrary("shop-rules", str(number), {}) for number in (4, 2)}
    for number, library in versions.items():
        loaded.load(number, library)
    assert loaded.at(1) == []
    assert loaded.at(2) == loaded.at(3) == [versions[2]]
    assert loaded.at(4) == loaded.at(END) == [versions[4]]


@pytest.mark.long
def test_a_load_that_is_rolled_back_leaves_the_older_version(
    shop: Journal, tmp_path: Path, settings: dict[str, str]
) -> None:
    notes = executed(
        shop,
        tmp_path,
        settings,
        LOAD.format(version="1"),
        LOAD.format(version="2") + FAIL,
        USE.format(name="after"),
    )
    assert notes["after"] == "1 on 1"


@pytest.mark.parametrize("seam", [Seam.LIBRARY_LOADED, Seam.EVENT_BEGUN, Seam.EVENT_ENDED])
def test_a_run_that_dies_beside_a_load_is_ended_by_the_next(
    shop: Journal, tmp_path: Path, settings: dict[str, str], seam: Seam
) -> None:
    assert submit(shop, tmp_path, LOAD.format(version="1"), **settings).status == 0
    with dying_after(seam, 1):
        shop.run("run_event_groups", **settings)
    assert shop.run("run_event_groups", **settings).status == 0
    assert executed(shop, tmp_path, settings, USE.format(name="after")) == {
        "1": "1 on 1",
        "after": "1 on 1",
    }


def test_a_load_by_a_machine_whose_clock_is_fast_is_taken_back(
    shop: Journal, tmp_path: Path, settings: dict[str, str], shift_clock: Callable[[float], None]
) -> None:
    assert submit(shop, tmp_path, LOAD.format(version="1"), **settings).status == 0
    shift_clock(10)
    with dying_after(Seam.LIBRARY_LOADED, 1):
        shop.run("run_event_groups", **settings)
    shift_clock(0)
    assert len(shop.own_rows("group_library")) == 1
    name = "load-1"
    assert shop.run("run_event_groups", "cancel", name, "--apply", **settings).status == 0
    shop.run("run_event_groups", **settings)
    assert shop.own_rows("event_group")[0]["state"] == "rolled-back"
    assert shop.own_rows("group_library") == []


def test_a_library_that_is_not_what_it_was_is_not_used(
    shop: Journal, tmp_path: Path, settings: dict[str, str]
) -> None:
    executed(shop, tmp_path, settings, LOAD.format(version="1"))
    assert submit(shop, tmp_path, USE.format(name="after"), **settings).status == 0
    shutil.rmtree(settings["EVENT_GROUP_LIBRARY_DIR"])
    wheels = Path(settings["EVENT_GROUP_WHEELS_DIR"])
    wheel(wheels, "shop_base", "1", {"shop_base.py": "VERSION = 'another'"})
    result = shop.run("run_event_groups", **settings)
    assert result.status == 3
    [line] = result.report["lines"]
    assert "shop-rules 1 is not what was loaded before: shop_base-1-py3-none-any.whl" in line


@pytest.mark.parametrize(
    ("library", "says"),
    [
        ("{name: requests, version: 1.0}", "the library requests is not allowed"),
        ("{name: shop-rules, version: 9.9}", "shop-rules 9.9 cannot be loaded: No matching dist"),
        ("{name: shop-rules, version: 3.0}", "shop-rules 3.0 cannot be loaded: No matching dist"),
        ("{name: '--index-url=x', version: 3.0}", "write it in the right form"),
        ("{name: shop-rules, version: '1.0 x'}", "write it in the right form"),
    ],
)
def test_a_library_that_cannot_be_loaded_is_refused(
    shop: Journal, tmp_path: Path, settings: dict[str, str], library: str, says: str
) -> None:
    text = f"group: g\nevents: [{{name: load, library: {library}}}]\n"
    result = submit(shop, tmp_path, text, **settings)
    assert result.status == 2
    assert says in result.error_lines[0]
    assert shop.own_rows("event_group") == []


def test_nothing_runs_beside_a_group_that_loads(
    shop: Journal, tmp_path: Path, settings: dict[str, str]
) -> None:
    def declared(text: str, name: str) -> str:
        rows = f"rows: [{{table: <account>, key: {{id: '{name}'}}}}]"
        return text.replace("events:", f"{rows}\nevents:", 1)

    plain = 'group: {0}\nevents: [{{name: a, statement: "{1}"}}]\n'
    write = "UPDATE <account> SET note = 'x' WHERE id = '{0}'"
    texts = [
        declared(plain.format(name, write.format(name)), name) for name in ("one", "two", "three")
    ]
    load = declared(LOAD.format(version="1"), "1")
    assert submit(shop, tmp_path, texts[0], load, *texts[1:], **settings).status == 0
    shown = shop.run("run_event_groups", "--dry-run", **settings).report["lines"]
    assert shown == ["together: one", "together: load-1", "together: two, three"]
