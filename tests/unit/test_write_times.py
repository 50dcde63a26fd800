"""The write times of one session, with a clock that the test sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark import clock
from tidemark.write_times import WriteTimes

SECOND = 1_000_000


class Clock:
    """A clock that only the test moves, also backwards."""

    def __init__(self, micros: int = 0) -> None:
        self.micros = micros

    def __call__(self) -> int:
        return self.micros


steps = st.tuples(
    st.sampled_from(["write", "tick", "pass by", "bound", "free"]),
    st.sampled_from("ab"),
    st.integers(-5, 20),
)


@given(st.lists(steps, max_size=30))
def test_write_times_follow_the_clock_up_to_the_nearest_bound(
    actions: list[tuple[str, str, int]],
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        now = Clock()
        patched.setattr(clock, "machine_micros", now)
        times, last, bounds = WriteTimes(), 0, dict[str, int]()
        for name, holder, micros in [*actions, ("write", "", 0), ("write", "", 0)]:
            if name == "write":
                last = max(last + 1, min([now.micros, *bounds.values()]))
                assert times() == last
            elif name == "tick":
                now.micros += micros
            elif name == "pass by":
                times.pass_by(micros)
                last = max(last, micros)
            elif name == "bound":
                times.bound(holder, micros / SECOND)
                bounds[holder] = now.micros + int(micros / SECOND * SECOND)
            else:
                times.free(holder)
                bounds.pop(holder, None)


def test_a_bound_is_in_seconds_and_holds_until_it_is_freed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = Clock(1_000 * SECOND)
    monkeypatch.setattr(clock, "machine_micros", now)
    times = WriteTimes()
    times.bound("locks", 2.5)
    now.micros += 9 * SECOND
    assert (times(), times()) == (1_002_500_000, 1_002_500_001)
    times.free("locks")
    assert times() == 1_009 * SECOND
