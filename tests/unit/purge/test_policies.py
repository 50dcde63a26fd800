"""The file of purge's policies: what it may say, what is refused where, and which value counts."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tests.repository import REPOSITORY
from tidemark.application.approval import Approval
from tidemark.errors import DefinitionError, InvalidInput
from tidemark.purge.policies.effective import effective
from tidemark.purge.policies.file import PolicyFile, load
from tidemark.purge.policies.model import IcebergSnapshots, OwnTable, Snapshots, TagViews
from tidemark.purge.request import PurgeOptions, request_of
from tidemark.purge.tag_views import TagViewOrder
from tidemark.settings import Settings

RED = "- {name: red, target: tag-views, keep-days: 90, tags: [red]}"
REST = "- {name: rest, target: tag-views}"
SHIPPED = REPOSITORY / "include" / "retention.yaml"


def loaded(directory: Path, *policies: str) -> PolicyFile:
    file = directory / "retention.yaml"
    file.write_text("\n".join(["policies:", *policies]) + "\n")
    return load(file)


def test_shipped_file_purges_tag_views_as_the_setting_says_and_what_is_old() -> None:
    views, groups, snapshots = effective(load(SHIPPED), Settings())
    assert isinstance(views.policy, TagViews)
    assert (views.policy.keep_days, views.policy.tags) == (30, ())
    assert views.sources["keep-days"] == "by default"
    assert isinstance(groups.policy, OwnTable)
    assert (groups.policy.target, groups.policy.keep_days) == ("event-groups", 90)
    assert isinstance(snapshots.policy, IcebergSnapshots)
    assert snapshots.policy.keep_days == 7


def test_values_are_of_their_types(tmp_path: Path) -> None:
    file = loaded(
        tmp_path,
        "- {name: a, target: snapshots, keep: 2, keep-after: 2024-01-31, events: true}",
        "- {name: b, target: quarantine, keep-days: 90}",
    )
    snapshots, quarantine = file.policies
    assert isinstance(snapshots, Snapshots)
    assert (snapshots.keep, snapshots.keep_after) == (2, date(2024, 1, 31))
    assert snapshots.events
    assert isinstance(quarantine, OwnTable)
    assert quarantine.keep_days == 90


@pytest.mark.parametrize(
    ("policy", "place", "what", "do"),
    [
        ("- {name: a, target: tag-vews}", "2:13", "unknown target tag-vews", "write tag-views"),
        ("- {name: a}", "2:3", "the target is missing", "known are"),
        ("- {target: ledger, keep-days: 9}", "2:3", "name is missing", "add `name: "),
        ("- {name: a, target: ledger}", "2:3", "keep-days is missing", "add `keep-days: 90`"),
        (
            "- {name: a, target: tag-views, keep-days: soon}",
            "2:43",
            "keep-days cannot be 'soon'",
            "write a whole number",
        ),
        ("- {name: a, target: tag-views, keep-days: 0}", "2:43", "cannot be", "at least 1"),
        ("- {name: a, target: tag-views, keep: 3}", "2:32", "unknown key keep", "write keep-days"),
        (
            "- {name: a, target: snapshots, keep: 1, keep-after: soon}",
            "2:53",
            "keep-after cannot be 'soon'",
            "such as 2024-01-31",
        ),
        (
            "- {name: a, target: snapshots, keep: 1, keep-after: 2024-01-31, keep-days: 3}",
            "2:65",
            "keep-after and keep-days contradict each other",
            "keep one of them",
        ),
        (
            "- {name: a, target: snapshots, keep: 0, events: true}",
            "2:38",
            "keep cannot be '0'",
            "write at least 1",
        ),
        (
            "- {name: a, target: kafka-journal-expiry, zone: Mars/Base}",
            "2:49",
            "zone cannot be 'Mars/Base'",
            "Europe/Berlin",
        ),
        (
            "- {name: a, target: table-ttl, table: tag_views, days: 1}",
            "2:13",
            "the target table-ttl no longer exists",
            "ALTER TABLE",
        ),
        (
            "- {name: a, target: runs, keep-days: 9}",
            "2:13",
            "the target runs no longer exists",
            "TIDEMARK_KEEP_REPORTS_DAYS",
        ),
        (f"{REST}\n- {{name: rest, target: ledger, keep-days: 9}}", "3:10", "the name rest", "one"),
        (f"{RED}\n- {{name: b, target: tag-views, tags: [x, red]}}", "3:42", "the tag red", "one"),
        (f"{REST}\n- {{name: b, target: tag-views}}", "3:21", "all tags that no other", "one"),
        (
            "- {name: a, target: ledger, keep-days: 9}\n- {name: b, target: ledger, keep-days: 8}",
            "3:21",
            "the policy a has the target ledger, too",
            "one",
        ),
        (
            "- {name: a, target: snapshots, keep: 1}\n"
            "- {name: b, target: snapshots, keep: 2, entity-types: [user]}",
            "3:21",
            "the policy a is for the entity type user, too",
            "one",
        ),
    ],
)
def test_refused_in_one_line_at_its_place(
    tmp_path: Path, policy: str, place: str, what: str, do: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        loaded(tmp_path, policy)
    assert refused.value.where == f"{tmp_path}/retention.yaml:{place}"
    assert what in refused.value.what
    assert do in refused.value.do
    assert "\n" not in str(refused.value)


def test_file_without_policies_or_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    with pytest.raises(DefinitionError, match="the file has no policies"):
        load(tmp_path / "empty.yaml")
    with pytest.raises(InvalidInput, match="TIDEMARK_RETENTION_FILE"):
        load(tmp_path / "absent.yaml")
    assert loaded(tmp_path, "  []").policies == ()


def test_command_line_comes_before_the_file_and_the_file_before_the_setting(tmp_path: Path) -> None:
    file = loaded(tmp_path, RED, REST)
    settings = Settings(retention_days=40)

    def days(**more: object) -> dict[str, tuple[object, str]]:
        values = effective(file, settings, **more)  # type: ignore[arg-type]
        return {
            v.policy.name: (v.policy.keep_days, v.sources["keep-days"])
            for v in values
            if isinstance(v.policy, TagViews) and v.is_chosen
        }

    place = f"from {tmp_path}/retention.yaml:2"
    assert days() == {"red": (90, place), "rest": (40, "from TIDEMARK_RETENTION_DAYS")}
    assert days(retention_days=50, names=["red"]) == {"red": (50, "from --retention-days")}
    with pytest.raises(InvalidInput, match="39 days are less than the 40 of TIDEMARK_RETENTION"):
        days(retention_days=39)
    assert days(retention_days=39, below_retention=True)["rest"][0] == 39
    assert [v.policy.name for v in effective(file, Settings(retention_days=90)) if v.is_chosen]
    with pytest.raises(InvalidInput, match="90 days are less than the 91") as floor:
        effective(file, Settings(retention_days=91))
    assert floor.value.where == f"{tmp_path}/retention.yaml:2"
    with pytest.raises(InvalidInput, match="there is no policy blue") as unknown:
        days(names=["blue"])
    assert "red, rest" in unknown.value.do


def test_explanation_names_each_value_and_its_source(tmp_path: Path) -> None:
    red, rest = effective(loaded(tmp_path, RED, REST), Settings())
    assert red.lines()[1:] == [
        f"  keep-days: 90, from {tmp_path}/retention.yaml:2",
        f"  tags: red, from {tmp_path}/retention.yaml:2",
    ]
    assert rest.lines()[1:] == ["  keep-days: 30, by default", "  tags: all, by default"]


def test_time_bucket_stays_for_the_longest_retention_of_its_tags(tmp_path: Path) -> None:
    file = loaded(tmp_path, RED, REST)
    policies = [v.policy for v in effective(file, Settings()) if isinstance(v.policy, TagViews)]
    red, rest = policies
    order = TagViewOrder(file, policies)
    assert order.decider(("blue", "red")) == (red, [])
    assert order.decider(("blue",)) == (rest, [])
    assert TagViewOrder(file, [red]).decider(("blue", "red")) == (red, ["blue"])
    assert TagViewOrder(file, [red]).decider(("blue",)) == (red, ["blue"])


APPROVAL = f"{'a' * 64}@2024-03-01T00:00:00Z"


def test_an_approval_is_read_as_it_is_shown() -> None:
    assert str(Approval.parse(APPROVAL)) == APPROVAL


@pytest.mark.parametrize("text", ["yes", "a" * 64, f"{'a' * 64}@2024-03-01"])
def test_what_is_no_approval_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not the approval of a plan"):
        Approval.parse(text)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"apply": True, "explain": True}, "--explain only plans"),
        ({"approved": Approval.parse(APPROVAL)}, "an approval is for a purge that is applied"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    options: dict[str, object], what: str
) -> None:
    given = {"choice": PurgeOptions(), "apply": False, "explain": False}
    given |= {"approved": None, "settings": Settings(journal_keyspace="pekko")}
    with pytest.raises(InvalidInput, match=what):
        request_of(**{**given, **options})  # type: ignore[arg-type]
