"""The clock, the only place that tells the present."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from unittest.mock import patch

from tests.integration.support import ROOT
from tidemark import clock

_ASKS = re.compile(r"datetime\.(now|utcnow|today)\(|time\.time(_ns)?\(|F\.(now|current_\w+)\(")


def test_nothing_but_the_clock_asks_for_the_present() -> None:
    files = [file for file in (ROOT / "spark_apps").rglob("*.py") if file.name != "clock.py"]
    asking = [str(file) for file in files if _ASKS.search(file.read_text())]
    assert len(files) > 100
    assert asking == []


def test_write_times_follow_the_clock() -> None:
    with patch.object(clock, "now", lambda: datetime(2024, 3, 1, microsecond=7, tzinfo=UTC)):
        assert clock.now_micros() == 1_709_251_200_000_007
