"""The graph of a group: which events wait for which, and its picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

Graph = Mapping[str, Sequence[str]]
"""The events that each event depends on, by name; in the order of the definition."""


def cycle(graph: Graph) -> list[str] | None:
    """Return events each of which depends on the next, the last one being the first; or None."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found[::-1]
    return None


def waves(graph: Graph) -> list[list[str]]:
    """Return the events in waves: those of a wave only depend on earlier ones.

    An event need not wait for all of the wave before it; the waves are for people.
    """
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    places = {name: place for place, name in enumerate(graph)}
    found = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=places.__getitem__)
        found.append(ready)
        sorter.done(*ready)
    return found


def order(graph: Graph) -> list[list[str]]:
    """Return the parts of a graph that do not touch, each in an order of execution.

    Source: OrderEventsForExecution of mklew/cassandra-transactions.
    """
    parts: list[set[str]] = []
    for name, before in graph.items():
        touched = {name, *before}
        met = [part for part in parts if part & touched]
        parts = [part for part in parts if not part & touched]
        parts.append(touched.union(*met))
    flat = [name for wave in waves(graph) for name in wave]
    places = {name: place for place, name in enumerate(graph)}
    parts.sort(key=lambda part: min(places[name] for name in part))
    return [[name for name in flat if name in part] for part in parts]


def dependents(graph: Graph, names: Iterable[str]) -> set[str]:
    """Return the events that depend on one of these, directly or by others."""
    found = set(names)
    for wave in waves(graph):
        found |= {name for name in wave if found.intersection(graph[name])}
    return found - set(names)


def as_text(graph: Graph, says: Mapping[str, str]) -> list[str]:
    """Draw the waves, one event a line; `says` is what each does."""
    lines = []
    for number, wave in enumerate(waves(graph), 1):
        lines.append(f"wave {number}")
        for name in wave:
            behind = f"  after {', '.join(graph[name])}" if graph[name] else ""
            lines.append(f"  {name}: {says[name]}{behind}")
    return lines


def as_mermaid(graph: Graph, says: Mapping[str, str]) -> str:
    """Draw the graph as a flowchart of Mermaid."""
    numbers = {name: f"e{place}" for place, name in enumerate(graph)}
    lines = ["flowchart TD"]
    for name, number in numbers.items():
        text = f"{name}<br>{says[name]}".replace('"', "&quot;")
        lines.append(f'    {number}["{text}"]')
    for name, before in graph.items():
        lines += [f"    {numbers[one]} --> {numbers[name]}" for one in before]
    return "\n".join(lines)
