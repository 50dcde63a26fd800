"""The demo's correction of a flight: the group that fails changes nothing, the other one all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedded.demo import correction
from tests.integration.support import Journal


def test_a_correction_over_three_tables_is_made_whole_or_not_at_all(
    make_journal: Callable[..., Journal], capsys: pytest.CaptureFixture[str]
) -> None:
    journal = make_journal()
    try:
        correction.create_tables(journal.control, journal.settings())
        statuses = []

        def application(*arguments: str) -> None:
            statuses.append(journal.run("run_event_groups", *arguments).status)

        for expected in ([0, 3, 0, 0], [0, 0, 0, 0]):
            correction.run(journal.control, journal.settings(), application)
            assert statuses == expected
            statuses.clear()
            correction.create_tables(journal.control, journal.settings())
        lines = [line for line in capsys.readouterr().out.splitlines() if "│" in line]
        begin, unsigned, corrected, *later = (line.split("│")[2:-1] for line in lines)
        assert [unsigned[0].strip(), corrected[0].strip()] == ["rolled-back", "done"]
        assert unsigned[1:] == begin[1:]
        minutes = [
            int(after.replace(",", "")) - int(before.replace(",", ""))
            for before, after in zip(begin[1:], corrected[1:], strict=True)
        ]
        assert minutes == [30, 30, 30]
        # A second demo leaves what was corrected.
        assert [line[1:] for line in later] == [corrected[1:]] * 3
    finally:
        journal.control.execute_ddl(f"DROP KEYSPACE IF EXISTS {correction.KEYSPACE}")
