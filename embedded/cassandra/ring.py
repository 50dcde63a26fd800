"""Several nodes of Cassandra on this machine, in data centres, each with all of the data."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import psutil

from embedded.cassandra.server import Cassandra, Endpoint
from embedded.errors import EmbeddedError
from embedded.machine import ports, processes

_FLAGS = ("-Xms512m", "-Xmx512m", "-Dcassandra.ring_delay_ms=2000")
"""A node waits so long for word of the others, which one alone need not do."""
_PASSWORD = "password"  # noqa: S105  the name of its file
_SEEDS = "org.apache.cassandra.locator.SimpleSeedProvider"


class Ring:
    """Nodes below one home, all of them on 127.0.0.1 with ports of their own.

    Who may log in is known to the first node only, which must not be missing.

    Args:
        home: a directory for each node.
        data_centers: the data centre of each node, by its name; the first node is the others' seed.
    """

    def __init__(self, home: Path, data_centers: Mapping[str, str]) -> None:
        """Store the arguments; nothing is started or written yet."""
        self._home = home
        self._data_centers = dict(data_centers)
        self._nodes: dict[str, Cassandra] = {}

    def start(self) -> dict[str, Endpoint]:
        """Start all nodes, one after the other, and return where they listen.

        Whatever ends the call early, no process is left behind.

        Raises:
            EmbeddedError: as `Cassandra.start` does.
        """
        try:
            return {name: self._begin(name, place) for place, name in enumerate(self._data_centers)}
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all nodes that run."""
        for node in self._nodes.values():
            node.stop()

    def back(self, name: str) -> Endpoint:
        """Start a node that has ended, with the data that it has."""
        return self._nodes[name].start()

    def process(self, name: str) -> psutil.Process:
        """Return the process of a node.

        Raises:
            EmbeddedError: it does not run.
        """
        found = processes.running("cassandra", self._home / name / "run")
        if found is None:
            raise EmbeddedError(f"the node {name} does not run", str(self._home), "start it")
        return found

    def replication(self) -> dict[str, str]:
        """Return the replication by which each node has all of the data."""
        counts = Counter(self._data_centers.values())
        return {
            "class": "NetworkTopologyStrategy",
            **{name: str(count) for name, count in counts.items()},
        }

    def _begin(self, name: str, place: int) -> Endpoint:
        home = self._home / name
        (home / "conf").mkdir(parents=True, exist_ok=True)
        rack = f"dc={self._data_centers[name]}\nrack=one\n"
        (home / "conf" / "cassandra-rackdc.properties").write_text(rack, encoding="utf-8")
        options: dict[str, object] = {
            "endpoint_snitch": "GossipingPropertyFileSnitch",
            # Of the tokens so few are the others' that users stay on the first node.
            "auth_read_consistency_level": "ONE",
            "auth_write_consistency_level": "ONE",
            "initial_token": str(place),
        }
        if place:
            first = self._home / next(iter(self._data_centers))
            shutil.copy(first / _PASSWORD, home / _PASSWORD)
            seed = f"{ports.HOST}:{ports.read(first / 'ports.json')['storage']}"
            options["seed_provider"] = [{"class_name": _SEEDS, "parameters": [{"seeds": seed}]}]
        self._nodes[name] = Cassandra(home, options=options, flags=_FLAGS)
        return self._nodes[name].start()
