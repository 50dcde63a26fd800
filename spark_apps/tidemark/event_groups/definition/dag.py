"""The graph of a group: which events wait for which, and its picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

Graph = Mapping[str, Sequence[str]]
"""The names of the events that each event depends on, in the order of the definition."""


def cycle(graph: Graph) -> list[str] | None:
    """Return events that each depend on the next, starting and ending with the same; or None."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        events: list[str] = error.args[1]
        return events[::-1]
    return None


def waves(graph: Graph) -> list[list[str]]:
    """Return the events in waves; the events of a wave depend only on earlier waves.

    Waves are for display: an event need not wait for the complete wave before it.
    """
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    positions = {name: position for position, name in enumerate(graph)}
    all_waves = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=positions.__getitem__)
        all_waves.append(ready)
        sorter.done(*ready)
    return all_waves


def order(graph: Graph) -> list[list[str]]:
    """Return the unconnected parts of a graph, each in an order of execution.

    Source: OrderEventsForExecution of mklew/cassandra-transactions.
    """
    parts: list[set[str]] = []
    for name, predecessors in graph.items():
        connected = {name, *predecessors}
        connected_parts = [part for part in parts if part & connected]
        parts = [part for part in parts if not part & connected]
        parts.append(connected.union(*connected_parts))
    flat = [name for wave in waves(graph) for name in wave]
    positions = {name: position for position, name in enumerate(graph)}
    parts.sort(key=lambda part: min(positions[name] for name in part))
    return [[name for name in flat if name in part] for part in parts]


def dependents(graph: Graph, names: Iterable[str]) -> set[str]:
    """Return the events that depend on one of `names`, directly or indirectly."""
    reached = set(names)
    for wave in waves(graph):
        reached |= {name for name in wave if reached.intersection(graph[name])}
    return reached - set(names)


def as_text(graph: Graph, summaries: Mapping[str, str]) -> list[str]:
    """Draw the waves, one event per line with its summary."""
    lines = []
    for number, wave in enumerate(waves(graph), 1):
        lines.append(f"wave {number}")
        for name in wave:
            suffix = f"  after {', '.join(graph[name])}" if graph[name] else ""
            lines.append(f"  {name}: {summaries[name]}{suffix}")
    return lines


def as_mermaid(graph: Graph, summaries: Mapping[str, str]) -> str:
    """Draw the graph as a Mermaid flowchart."""
    numbers = {name: f"e{position}" for position, name in enumerate(graph)}
    lines = ["flowchart TD"]
    for name, number in numbers.items():
        text = f"{name}<br>{summaries[name]}".replace('"', "&quot;")
        lines.append(f'    {number}["{text}"]')
    for name, predecessors in graph.items():
        lines += [f"    {numbers[predecessor]} --> {numbers[name]}" for predecessor in predecessors]
    return "\n".join(lines)
