"""The real clock and the real plugin: actors write while the chain runs behind them.

Both ways of docs/tagging.md run at once, each on a journal of its own with Minute buckets.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.integration.support import Journal, wait_until
from tests.interop.client import Client, plugin_settings
from tests.interop.support import QUICK
from tests.live.site import Site

MINUTE = timedelta(minutes=1)
IN_TIME = timedelta(seconds=5)


def minute(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


def wait_for_time(moment: datetime) -> None:
    wait_until(f"{moment:%H:%M:%S}", lambda: datetime.now(UTC) >= moment, 300)


@pytest.mark.long
def test_two_intervals_of_real_applications(
    make_journal: Callable[..., Journal], pekko: Client, tmp_path: Path
) -> None:
    first = datetime.now(UTC) - timedelta(hours=1)
    sites, nodes = [], []
    for tags_by_pekko in (True, False):
        journal = make_journal(BUCKET_SIZE="Minute")
        settings = {**QUICK, "events_by_tag__eventual_consistency_delay": "1s"}
        reader = pekko.open(plugin_settings(journal.keyspace, "Minute", first, **settings))
        off = {} if tags_by_pekko else {"events_by_tag__enabled": "off"}
        writer = pekko.open(plugin_settings(journal.keyspace, "Minute", first, **settings, **off))
        nodes += [reader, writer]
        directory = tmp_path / ("pekko" if tags_by_pekko else "tidemark")
        sites.append(Site(journal, writer, reader, directory, tags_by_pekko))
    begin = minute(datetime.now(UTC))
    for site in sites:
        site.persist("a|1", 5, "red")
        site.persist("a|2", 3, "red", "blue")
        site.persist("b|1", 2)
    between = minute(datetime.now(UTC)) + MINUTE
    wait_for_time(between)
    for site in sites:
        site.persist("a|1", 3, "blue", "red")
        site.persist("c|1", 2, "red")
        site.persist("b|1", 1, "red")
    end = minute(datetime.now(UTC)) + MINUTE
    # Wait until the last Minute is out of live readers' reach.
    wait_for_time(between + MINUTE + IN_TIME)
    for site in sites:
        site.run_chain(begin, between)
        site.delete("a|1", 4)
        site.delete("a|2", 3)
    wait_for_time(end + MINUTE + IN_TIME)
    for site in sites:
        site.run_chain(between, end)
        site.require_equal_to_the_model()
    for node in nodes:
        node.close()
