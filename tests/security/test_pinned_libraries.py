"""Libraries and JARs that are fetched at run time: which version, and which file of that version.

Each is in a repository that also has a newer one, which a stranger has uploaded under its name.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.integration.event_groups.test_libraries import wheel
from tests.integration.java_repository import publish
from tidemark.event_groups.definition import model
from tidemark.event_groups.external.jars import Jars
from tidemark.event_groups.external.libraries import Libraries, sha256
from tidemark.event_groups.failure import EventFailed
from tidemark.settings import Settings


@dataclass
class Repository:
    """A directory with a server, the requests that it got, and what it serves."""

    folder: Path
    url: str
    asked: list[str] = field(default_factory=list)

    def hash(self, place: str) -> str:
        """Return the option of a file's hash."""
        return f"--hash=sha256:{sha256(self.folder / place)}"


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """Yield an empty repository."""
    folder = tmp_path / "repository"
    folder.mkdir()
    made = Repository(folder, "")

    class Serves(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            made.asked.append(self.path)

    serves = partial(Serves, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), serves) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made.url = f"http://127.0.0.1:{server.server_port}"
        yield made
        server.shutdown()


@pytest.fixture
def index(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Return a package index, the one that pip is set up for."""
    for version, needs in (("1", "shop-base<99.1"), ("2", "shop-base==2"), ("99", "shop-base")):
        own = {"shop_rules.py": "def of(_):\n    return 1\n"}
        wheel(repository.folder / "shop-rules", "shop_rules", version, own, needs)
        wheel(repository.folder / "shop-base", "shop_base", version, {"shop_base.py": ""})
    monkeypatch.setenv("PIP_INDEX_URL", repository.url)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return repository


def of(index: Repository, name: str, version: str) -> str:
    """Return the line of a library in the allow-list, with the hash of what the index has."""
    wheel_name = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    return f"{name}=={version} {index.hash(f'{name}/{wheel_name}')}"


def fetched(tmp_path: Path, allowed: str, version: str, **settings: Any) -> list[str]:
    """Load shop-rules; return its wheels and those of what it needs."""
    chosen = Settings(
        event_group_libraries=allowed, event_group_library_dir=tmp_path / "libraries", **settings
    )
    return sorted(Libraries(chosen).fetch("shop-rules", version).wheels)


def test_a_library_with_its_hash_is_fetched_as_it_is_pinned(
    index: Repository, tmp_path: Path
) -> None:
    allowed = ", ".join(
        f"{of(index, 'shop-rules', one)} {of(index, 'shop-base', one)}" for one in ("1", "2")
    )
    for version in ("1", "2"):
        assert fetched(tmp_path, allowed, version) == [
            f"shop_base-{version}-py3-none-any.whl",
            f"shop_rules-{version}-py3-none-any.whl",
        ]


@pytest.mark.parametrize(
    ("allowed", "version", "says"),
    [
        ("shop-rules", "99", "shop-rules is allowed without a hash, which a package index needs"),
        ("shop-rules==1", "1", "shop-rules is allowed without a hash, which a package index needs"),
        ("shop-rules==1", "99", "shop-rules 99 is not allowed, only 1"),
        ("shop-base==1", "1", "the library shop-rules is not allowed"),
    ],
)
def test_the_index_is_not_asked_for_a_library_without_a_hash(
    index: Repository, tmp_path: Path, allowed: str, version: str, says: str
) -> None:
    with pytest.raises(EventFailed) as rejected:
        fetched(tmp_path, allowed, version)
    assert says in str(rejected.value)
    assert index.asked == []


@pytest.mark.parametrize(("version", "needs"), [("1", "shop-base<99.1"), ("2", "shop-base==2")])
def test_what_a_library_needs_is_pinned_too(
    index: Repository, tmp_path: Path, version: str, needs: str
) -> None:
    with pytest.raises(EventFailed) as rejected:
        fetched(tmp_path, of(index, "shop-rules", version), version)
    assert str(rejected.value) == (
        f"shop-rules {version} cannot be loaded: it needs {needs}, which is not pinned with its"
        " hash in TIDEMARK_EVENT_GROUP_LIBRARIES"
    )


@pytest.mark.parametrize("is_local", [False, True])
def test_a_wheel_with_another_hash_is_not_loaded(
    index: Repository, tmp_path: Path, is_local: bool
) -> None:
    allowed = f"{of(index, 'shop-rules', '1')} {of(index, 'shop-base', '1')}"
    folder = index.folder / "shop-base"
    wheel(folder, "shop_base", "1", {"shop_base.py": "raise ValueError"})
    wheels = {"event_group_wheels_dir": folder} if is_local else {}
    if is_local:
        for file in (index.folder / "shop-rules").iterdir():
            file.rename(folder / file.name)
    with pytest.raises(EventFailed) as rejected:
        fetched(tmp_path, allowed, "1", **wheels)
    assert str(rejected.value) == (
        "shop-rules 1 cannot be loaded: shop-base==1 has another hash than in"
        " TIDEMARK_EVENT_GROUP_LIBRARIES"
    )
    assert not list((tmp_path / "libraries").iterdir())


def test_a_directory_of_wheels_needs_no_hash(index: Repository, tmp_path: Path) -> None:
    folder = index.folder / "shop-rules"
    for file in (index.folder / "shop-base").iterdir():
        file.rename(folder / file.name)
    for allowed in ("shop-rules", "shop-rules==1"):
        found = fetched(tmp_path, allowed, "1", event_group_wheels_dir=folder)
        assert "shop_rules-1-py3-none-any.whl" in found
    assert index.asked == []


RULES = model.JarLibrary(
    jar="org.example:rules", version="1", functions={"note": "org.example.Note"}
)


@pytest.fixture
def maven(repository: Repository, tmp_path: Path) -> Repository:
    """Return a repository of JARs: rules 1, which needs base 1."""
    note = tmp_path / "Note.class"
    note.write_bytes(b"")
    publish(repository.folder, "rules", "1", [note], "org.example:base:1")
    publish(repository.folder, "base", "1", [])
    return repository


def jars_of(tmp_path: Path, allowed: str, place: str) -> list[str]:
    """Load org.example:rules 1; return its JARs."""
    chosen = Settings(
        event_group_jars=allowed,
        event_group_jar_repositories=place,
        event_group_library_dir=tmp_path / "libraries",
    )
    return sorted(Jars(chosen).fetch(RULES).jars)


def jar_hash(maven: Repository, artifact: str) -> str:
    """Return the option of a JAR's hash."""
    return maven.hash(f"org/example/{artifact}/1/{artifact}-1.jar")


def test_jars_with_their_hashes_are_fetched(maven: Repository, tmp_path: Path) -> None:
    allowed = f"org.example:rules:1 {jar_hash(maven, 'rules')} {jar_hash(maven, 'base')}"
    found = ["org.example_base-1.jar", "org.example_rules-1.jar"]
    assert jars_of(tmp_path, allowed, maven.url) == found


def test_a_directory_of_jars_needs_no_hash(maven: Repository, tmp_path: Path) -> None:
    for allowed in ("org.example:rules", "org.example:rules:1"):
        assert len(jars_of(tmp_path, allowed, str(maven.folder))) == 2
    assert maven.asked == []


@pytest.mark.parametrize(
    ("allowed", "says"),
    [
        ("org.example:rules", "org.example:rules is allowed without a hash, which a repository"),
        ("org.example:rules:1", "org.example:rules is allowed without a hash, which a repository"),
        ("org.example:rules:2", "org.example:rules 1 is not allowed, only 2"),
    ],
)
def test_the_repository_is_not_asked_for_a_jar_without_a_hash(
    maven: Repository, tmp_path: Path, allowed: str, says: str
) -> None:
    with pytest.raises(EventFailed) as rejected:
        jars_of(tmp_path, allowed, maven.url)
    assert says in str(rejected.value)
    assert maven.asked == []


def test_what_a_jar_needs_has_a_hash_too(maven: Repository, tmp_path: Path) -> None:
    allowed = f"org.example:rules:1 {jar_hash(maven, 'rules')}"
    for place in (maven.url, str(maven.folder)):
        with pytest.raises(EventFailed) as rejected:
            jars_of(tmp_path, allowed, place)
        assert str(rejected.value) == (
            "org.example:rules 1 cannot be loaded: org.example_base-1.jar has"
            f" {jar_hash(maven, 'base')}, which its entry in TIDEMARK_EVENT_GROUP_JARS has not"
        )
    assert not list((tmp_path / "libraries" / "jars").glob("*.jar"))
