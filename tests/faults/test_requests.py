"""Requests to Cassandra that are lost, refused, repeated, or whose sender is killed.

Each kind of write of an application meets a fault in a run of its own. Which kinds there are comes
from an undisturbed run over the same work, so none can be forgotten, but for those that only the
first run over a journal has: one of these meets a fault. A run ends well, with a line of error, or
by the kill; and after the last run, which meets nothing, the tables are those of a journal whose
runs were never disturbed. `make soak` gives each kind of write all faults, `make long` one of them.

`make test` does this for tag_write. Of a third of the applications and modes, other ones
with each commit, it kills one run, at another write each time.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from embedded.cassandra.server import Endpoint
from tests.faults.cql_proxy import CqlProxy, Fault, Kind
from tests.faults.killing import expire_locks
from tests.faults.work import WORKS, Setting, Work
from tests.integration.support import ROOT, Journal, Result
from tests.scheduling import turns

FLIGHTS, OF_SOAK = 400, 2400
KILLED = -signal.SIGKILL
COMMIT, SHARES = turns.commits(), 3


def faults_of(kind: Kind, number: int, *, all_of_them: bool) -> list[Fault]:
    """Return what the kind of write with a number meets.

    A transaction that came once more would find another state; no network sends it again.
    """
    again = (Fault.TWICE, Fault.LATE) if kind.is_conditional else ()
    possible = [fault for fault in Fault if fault not in again]
    return possible if all_of_them else [possible[number % len(possible)]]


class Requests:
    """Runs of work, whose requests pass the proxy."""

    def __init__(self, proxy: CqlProxy) -> None:
        self._proxy = proxy
        host, port = proxy.address
        self._hosts = {"CASSANDRA_HOSTS": f"{host}:{port}"}

    def of_undisturbed(self, work: Work) -> list[Kind]:
        """Run it, and return what it writes."""
        self._proxy.writes.clear()
        application, *arguments = work.command
        result = work.journal.run(application, *arguments, **self._hosts)
        assert result.status == work.status, result.stderr
        return list(self._proxy.writes)

    def disturb(self, work: Work, fault: Fault, kind: Kind, number: int = 1) -> Result:
        """Run it, and let the fault happen to a write of a kind, counted from 1."""
        application, *arguments = work.command
        if not fault.kills:
            with self._proxy.meeting(fault, kind, number):
                return work.journal.run(application, *arguments, **self._hosts)
        processes: list[subprocess.Popen[str]] = []
        with self._proxy.meeting(
            fault, kind, number, kill=lambda: os.killpg(processes[0].pid, signal.SIGKILL)
        ):
            script = ROOT / "spark_apps" / f"{application}.py"
            processes.append(work.journal.start(script, *arguments, **self._hosts))
            stdout, stderr = processes[0].communicate()
        assert processes[0].returncode == KILLED, stderr
        return Result(KILLED, stdout, stderr)


def two_of(name: str, setting: Setting) -> list[Work]:
    """Return the same work in two journals; of the first no run is disturbed."""
    return [
        WORKS[name](replace(setting, directory=setting.directory / place))
        for place in ("undisturbed", "disturbed")
    ]


@pytest.fixture
def setting(
    make_journal: Callable[..., Journal],
    kafka: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> Setting:
    """Return the setting of a test's work."""
    flights = OF_SOAK if pytestconfig.getoption("soak") else FLIGHTS
    return Setting(make_journal, kafka, tmp_path, flights)


def has_ended_properly(result: Result, work: Work) -> bool:
    """Tell whether a disturbed run has ended as others do, with a line of error, or by the kill."""
    errors = len(result.error_lines)
    if "Traceback" in result.stderr:
        return False
    if result.status == 0:
        return not errors
    if result.status == 1:
        return 1 <= errors <= work.most_errors
    return result.status in (work.status, KILLED)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if turns.is_turn(name, COMMIT, SHARES) else pytest.mark.long)
        for name in WORKS
    ],
)
def test_a_run_that_is_killed_at_a_write_is_made_good_by_the_next(
    setting: Setting, cassandra: Endpoint, name: str
) -> None:
    """The write is the first of its kind or one amid others of it; which one, the commit says."""
    choice = random.Random(f"{name} {COMMIT}")
    with CqlProxy((cassandra.host, cassandra.port)) as proxy:
        requests = Requests(proxy)
        undisturbed, disturbed = two_of(name, setting)
        for work in (undisturbed, disturbed):
            work.grow()
        written = Counter(requests.of_undisturbed(undisturbed))
        kind = choice.choice(sorted(written))
        # Locks are kept as long as a run takes.
        number = 1 if kind.table == "lock" else choice.choice((1, 1 + written[kind] // 2))
        fault = choice.choice([fault for fault in Fault if fault.kills])
        requests.disturb(disturbed, fault, kind, min(number, written[kind]))
        expire_locks(disturbed.journal)
        last = disturbed.journal.run(*disturbed.command)
        where = f"{kind} {number}: {fault.value}"
        # The killed run may have done all.
        assert last.status in (0, undisturbed.status), (where, last.stderr)
        expected = undisturbed.everything()
        assert disturbed.everything() == expected, where
    assert expected[undisturbed.result]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "tag_write" else pytest.mark.long) for name in WORKS],
)
def test_every_kind_of_write_meets_a_fault_and_the_next_run_is_as_if_none_had(
    setting: Setting, cassandra: Endpoint, pytestconfig: pytest.Config, name: str
) -> None:
    every = pytestconfig.getoption("soak")
    with CqlProxy((cassandra.host, cassandra.port)) as proxy:
        requests = Requests(proxy)
        undisturbed, disturbed = two_of(name, setting)
        first: set[Kind] = set()
        kinds: list[Kind] = []
        met: dict[tuple[Kind, Fault], int] = {}
        while True:
            for work in (undisturbed, disturbed):
                work.grow()
            written = list(dict.fromkeys(requests.of_undisturbed(undisturbed)))
            first = first or set(written)
            kinds += [kind for kind in written if kind not in kinds]
            left = [
                (kind, fault)
                for kind in written
                for fault in faults_of(kind, kinds.index(kind), all_of_them=every)
                if (kind, fault) not in met
            ]
            if not left:
                break
            kind, fault = left[0]
            result = requests.disturb(disturbed, fault, kind)
            met[kind, fault] = result.status
            assert has_ended_properly(result, disturbed), f"{kind}: {fault.value}: {result.stderr}"
            expire_locks(disturbed.journal)
        # A journal's first run has writes of its own, of which one has met something.
        once = {kind for kind in kinds if kind not in {kind for kind, _ in met}}
        assert once <= first, once - first
        last = disturbed.journal.run(*disturbed.command)
        assert last.status in (0, undisturbed.status), last.stderr
        expected = undisturbed.everything()
        assert disturbed.everything() == expected
        proxy.send_late()
        assert disturbed.everything() == expected
    assert expected[undisturbed.result]
    assert {undisturbed.status, 1} <= set(met.values())
