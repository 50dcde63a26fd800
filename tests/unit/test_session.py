"""The Spark session of an application that is started by hand, and its UI."""

from __future__ import annotations

import pytest

from tidemark.settings import Settings
from tidemark.spark_session import submission, ui

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
    ("setting", "master", "is_on"),
    [
        ("cluster", "local[*]", "false"),
        ("cluster", "spark://host:7077", "true"),
        ("on", "local[*]", "true"),
        ("off", "spark://host:7077", "false"),
    ],
)
def test_ui_is_there_on_a_cluster_or_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, setting: str, master: str, is_on: str
) -> None:
    monkeypatch.setenv("TIDEMARK_SPARK_UI", setting)
    assert ui(Settings.load(), master) == {"spark.ui.enabled": is_on}
