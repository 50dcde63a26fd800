"""Where copies may be: below the directories that are set, however a path is written."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.repository import REPOSITORY
from tidemark.errors import InvalidInput
from tidemark.purge.request import PurgeOptions, request_of
from tidemark.purge.saved.places import directory_of, is_plain
from tidemark.settings import Settings


@pytest.fixture(scope="module")
def saves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory for copies with links beside it and in it."""
    root = tmp_path_factory.mktemp("root")
    (root / "saves" / "old").mkdir(parents=True)
    (root / "outside").mkdir()
    (root / "saves-evil").mkdir()
    (root / "saves" / "leaves").symlink_to(root / "outside")
    (root / "saves" / "stays").symlink_to(root / "saves" / "old")
    (root / "saves" / "turns").symlink_to(root / "saves" / "turns")
    (root / "enters").symlink_to(root / "saves")
    return root / "saves"


def resolved(text: str, *directories: str | Path) -> str:
    settings = Settings(save_dirs=",".join(map(str, directories)))
    return directory_of(text, settings, "--save-to")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{saves}", ""),
        ("{saves}/", ""),
        ("{saves}/a", "/a"),
        ("/{saves}//a/./b/", "/a/b"),
        ("{saves}/a/../b", "/b"),
        ("{saves}/../saves/a", "/a"),
        ("{saves}/stays/a", "/old/a"),
        ("{saves}/turns", "/turns"),
        ("{saves}/../enters/a", "/a"),
        ("file:{saves}/a", "/a"),
        ("file://{saves}/a", "/a"),
        ("FILE:{saves}/a", "/a"),
        ("a", "/a"),
        ("a b/ü", "/a b/ü"),
        ("a/../../saves/b", "/b"),
    ],
)
def test_directory_below_an_allowed_one_is_accepted(saves: Path, text: str, place: str) -> None:
    assert resolved(text.format(saves=saves), saves) == f"file://{saves}{place}"


@pytest.mark.parametrize(
    "text",
    [
        "/etc",
        "/",
        "{saves}-evil",
        "{saves}/..",
        "{saves}/../saves-evil",
        "{saves}/a/../../outside",
        "{saves}/leaves",
        "{saves}/leaves/a",
        "{saves}/leaves/../saves-evil",
        "file:/etc",
        "file:///etc",
        "file:{saves}/../outside",
        "hdfs:{saves}",
        "hdfs://host{saves}",
        "webhdfs://their.host/x",
        "local:{saves}/a",
        "..",
        "../saves-evil",
        "leaves/a",
    ],
)
def test_directory_elsewhere_is_rejected(saves: Path, text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        resolved(text.format(saves=saves), saves)
    assert "is not in a directory for copies (--save-to); name a directory below file://" in str(
        refused.value
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the directory is empty"),
        (" ", "the directory is empty"),
        ("{saves}/%2e%2e/outside", "a character that cannot be used"),
        ("file:{saves}/%2e%2e/outside", "a character that cannot be used"),
        (r"{saves}/\.\./outside", "a character that cannot be used"),
        ("{saves}/*", "a character that cannot be used"),
        ("{saves}/{{a,../../outside}}", "a character that cannot be used"),
        ("{saves}/a\0", "a character that cannot be used"),
        ("{saves}/a\n", "a character that cannot be used"),
        ("{saves}/\udcff", "a character that cannot be used"),
        ("{saves}/turns/a/../../leaves", "lead in a circle"),
        ("file://localhost{saves}", "names a host"),
        ("file:a", "has no absolute path"),
        ("hdfs:", "has no absolute path"),
        ("hdfs://host", "has no absolute path"),
    ],
)
def test_directory_that_can_be_read_in_two_ways_is_rejected(
    saves: Path, text: str, says: str
) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        resolved(text.format(saves=saves), saves)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("hdfs://host/saves/a", "hdfs://host/saves/a"),
        ("HDFS://host//saves/./a/../b/", "hdfs://host/saves/b"),
        ("s3a://bucket", None),
        ("s3a://bucket/", "s3a://bucket/"),
        ("s3a://bucket/a", "s3a://bucket/a"),
        ("hdfs:/saves", None),
        ("hdfs:///saves", None),
        ("hdfs://host:8020/saves", None),
        ("hdfs://Host/saves", None),
        ("hdfs://me@host/saves", None),
        ("hdfs://host/saves/../a", None),
        ("hdfs://host/saves-evil", None),
        ("webhdfs://host/saves", None),
        ("viewfs:/x/a", "viewfs:///x/a"),
        ("viewfs:///x", "viewfs:///x"),
        ("viewfs://table/x", None),
    ],
)
def test_uri_has_scheme_host_and_path_of_an_allowed_one(text: str, place: str | None) -> None:
    allowed = ("hdfs://host/saves", "S3A://bucket/", "viewfs:/x")
    if place is not None:
        assert resolved(text, *allowed) == place
        return
    with pytest.raises(InvalidInput):
        resolved(text, *allowed)


SEGMENTS = st.sampled_from(
    ["a", "..", ".", "", "saves", "outside", "saves-evil", "leaves", "stays", "turns", "enters"]
) | (st.sampled_from(["%2e%2e", r"\.\.", "*", "file:", "hdfs:", "~"]) | st.text(max_size=3))


@settings(max_examples=500)
@given(
    text=st.tuples(
        st.sampled_from(["", "/", "//", "ROOT/", "ROOT/saves/", "file:ROOT/saves/", "file://"])
        | st.sampled_from(["FILE:///", "hdfs://host/saves/", "hdfs:/saves/", "webhdfs://host/"]),
        st.lists(SEGMENTS, max_size=6).map("/".join),
    ).map("".join)
)
def test_no_directory_outside_is_ever_accepted(saves: Path, text: str) -> None:
    """What a file system opens is below a directory that is set; links are followed as it does."""
    try:
        place = resolved(text.replace("ROOT", str(saves.parent)), saves, "hdfs://host/saves")
    except InvalidInput:
        return
    scheme, authority, path = re.fullmatch(r"(\w+)://([^/]*)(/.*)", place).groups()  # type: ignore[union-attr]
    assert not {".", "..", ""} & set(path[1:].split("/"))
    assert not re.search(r"[%*?{}\[\]\\\x00-\x1f]", path)
    if scheme == "file":
        assert authority == ""
        assert os.path.realpath(path) == path
        assert os.path.commonpath([path, saves]) == str(saves)
    else:
        assert (scheme, authority) == ("hdfs", "host")
        assert PurePosixPath(path).is_relative_to("/saves")


def test_by_default_a_name_is_below_the_checkouts_own_directory() -> None:
    place = directory_of("before-upgrade", Settings(), "--save-to")
    assert place == f"file://{REPOSITORY}/.tidemark/saved/before-upgrade"


@pytest.mark.parametrize(
    ("directories", "says"),
    [
        ("", r"there is no directory for copies \(TIDEMARK_SAVE_DIRS\)"),
        (" , ", r"there is no directory for copies \(TIDEMARK_SAVE_DIRS\)"),
        ("/saves/*", r"the directory /saves/\* has a character.* \(TIDEMARK_SAVE_DIRS\)"),
    ],
)
def test_setting_that_cannot_be_used_is_rejected(directories: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        resolved("/saves/a", directories)


def test_a_purge_without_an_option_saves_to_the_directory_of_the_setting(saves: Path) -> None:
    def save_to(option: str | None, setting: str) -> str | None:
        settings = Settings(save_dirs=str(saves), purge_save_to=setting)
        request = request_of(
            PurgeOptions(),
            apply=True,
            explain=False,
            save_to=option,
            approved=None,
            settings=settings,
        )
        return request.save_to

    assert save_to(None, "") is None
    assert save_to(None, "weekly") == f"file://{saves}/weekly"
    assert save_to("mine", "weekly") == f"file://{saves}/mine"
    with pytest.raises(InvalidInput, match=r"for copies \(TIDEMARK_PURGE_SAVE_TO\)"):
        save_to(None, "/elsewhere")


@pytest.mark.parametrize("name", ["a", "0b1d-views", ".hidden", "ü b", "a:b+c"])
def test_name_of_one_directory_is_plain(name: str) -> None:
    assert is_plain(name)


@pytest.mark.parametrize(
    "name", [None, "", ".", "..", "../a", "a/b", "/", "a\0", r"\.\.", "*", "{a,b}", "%2e%2e"]
)
def test_name_that_leads_elsewhere_is_not_plain(name: str | None) -> None:
    assert not is_plain(name)
