"""The Spark session of an application that is started by hand, and its UI."""

from __future__ import annotations

import pytest
from pyspark import SparkConf

from tidemark.errors import InvalidInput
from tidemark.settings import Settings
from tidemark.spark_session import require_one_read, submission, ui

ADDRESSES = {"spark.driver.bindAddress", "spark.driver.host"}


def test_driver_of_workers_on_other_machines_is_not_on_this_machine_only() -> None:
    """Workers call the driver: at 127.0.0.1 they would call themselves and the run would hang."""
    conf = submission(Settings(spark_master="spark://host:7077"))
    assert conf["spark.master"] == "spark://host:7077"
    assert not ADDRESSES & conf.keys()


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_driver_that_has_no_workers_listens_on_this_machine_only(master: str) -> None:
    conf = submission(Settings(spark_master=master))
    assert {conf[name] for name in ADDRESSES} == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("setting", "given", "is_on", "kills"),
    [
        ("", {}, "false", "false"),
        ("off", {}, "false", "false"),
        ("on", {}, "true", "false"),
        ("", {"spark.ui.enabled": "true"}, "true", "false"),
        ("on", {"spark.ui.enabled": "false"}, "false", "false"),
        ("", {"spark.ui.enabled": "true", "spark.ui.killEnabled": "true"}, "true", "true"),
        ("on", {"spark.ui.killEnabled": "true"}, "true", "true"),
    ],
)
def test_ui_is_off_unless_somebody_wants_it_and_kills_nothing(
    monkeypatch: pytest.MonkeyPatch, setting: str, given: dict[str, str], is_on: str, kills: str
) -> None:
    """What spark-submit is given comes first."""
    if setting:
        monkeypatch.setenv("TIDEMARK_SPARK_UI", setting)
    conf = SparkConf(loadDefaults=False).setAll(list(given.items()))
    assert {**given, **ui(Settings.load(), conf)} == {
        "spark.ui.enabled": is_on,
        "spark.ui.killEnabled": kills,
    }


@pytest.mark.parametrize("option", ["spark.speculation", "spark.shuffle.service.enabled"])
@pytest.mark.parametrize(("master", "is_refused"), [("spark://host:7077", True), ("local", False)])
def test_options_by_which_rows_are_read_twice_are_refused_on_a_cluster(
    option: str, master: str, is_refused: bool
) -> None:
    harmless = SparkConf(loadDefaults=False).set("spark.master", master).set(option, "false")
    require_one_read(harmless)
    conf = SparkConf(loadDefaults=False).set("spark.master", master).set(option, "TRUE")
    if not is_refused:
        require_one_read(conf)
        return
    with pytest.raises(InvalidInput) as refused:
        require_one_read(conf)
    assert f"{option}=true" in str(refused.value)
    assert f"set {option}=false" in str(refused.value)
