"""A player of histories, which tells at which step a history broke."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.integration.support import Journal
from tests.live import invariants
from tests.live.steps import Accept, Appear, Begin, History, Mend, Persist, Run, Settle
from tests.live.world import Profile, World


def play(profile: Profile, history: History, journal: Journal, directory: Path) -> World:
    """Play a history, then a quiet end, and check the invariants on the way.

    Raises:
        Broken: an invariant does not hold. The text has the history up to that step, as Python.
    """
    world = World(profile, journal, directory)
    done = []
    try:
        Begin()(world)
        for step in history:
            done.append(step)
            ran = len(world.seen)
            world.visible_to_last_run = world.placed
            step(world)
            invariants.after_step(world, world.seen[ran:])
            world.disturbed = False
        end_quietly(world)
    except Exception as broken:
        steps = "\n".join(f"    {step!r}," for step in done)
        runs = "\n".join(f"    {run}" for run in world.seen)
        text = f"{broken!r}\nprofile {profile!r}\nhistory\n{steps}\nruns\n{runs}\n"
        (directory / "broken.txt").write_text(text)  # kept if a test run ends before its report
        raise invariants.Broken(text) from broken
    return world


def end_quietly(world: World) -> None:
    """Let every actor write once more under all of its tags, then run the chain undisturbed."""
    world.interrupts.clear()
    world.held_by_others.clear()
    if world.damaged:
        for pid in sorted(world.damaged):
            Appear(pid)(world)
        Mend()(world)
    for pid in sorted(world.truth.events):
        tags = sorted({tag for event in world.truth.events[pid].values() for tag in event.tags})
        Persist(pid, tuple(tags))(world)
    last = max(event.micros for event in world.truth.all()) // 1000
    world.quiet_since = last - last % world.bucket_ms + world.bucket_ms
    world.advance(timedelta(milliseconds=max(0, last - round(world.now.timestamp() * 1000))))
    while world.last_end <= last:
        _run(world)
    Settle()(world)
    if world.frozen:
        Accept()(world)
    _run(world)
    invariants.at_the_end(world)


def _run(world: World) -> None:
    ran = len(world.seen)
    world.visible_to_last_run = world.placed
    Run()(world)
    invariants.after_step(world, world.seen[ran:])
