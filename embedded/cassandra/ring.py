"""Several nodes of Cassandra on this machine, in data centres, each with all of the data."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import psutil

from embedded.cassandra.server import PORTS, Cassandra, Endpoint
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
        behind: the addresses of nodes that the others do not reach directly; somebody listens there
            on the port `storage_port`, and passes on what comes.
    """

    def __init__(
        self,
        home: Path,
        data_centers: Mapping[str, str],
        behind: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Store the arguments; nothing is started or written yet."""
        self._home = home
        self._data_centers = dict(data_centers)
        self._behind = behind
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

    def storage_port(self, name: str) -> int:
        """Return the port on which a node listens, or will listen, to the others."""
        chosen = ports.choose(self._home / name / "ports.json", PORTS, {})
        return chosen["storage"]

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
        if name in self._behind:
            options["broadcast_address"] = self._behind[name]
        if place:
            first = self._home / next(iter(self._data_centers))
            shutil.copy(first / _PASSWORD, home / _PASSWORD)
            seed = f"{ports.HOST}:{ports.read(first / 'ports.json')['storage']}"
            options["seed_provider"] = [{"class_name": _SEEDS, "parameters": [{"seeds": seed}]}]
        self._nodes[name] = Cassandra(home, options=options, flags=_FLAGS)
        return self._nodes[name].start()
