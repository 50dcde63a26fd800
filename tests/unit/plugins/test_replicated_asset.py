"""Which time buckets of kafka-journal's topics an asset event announces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidemark_airflow.assets import newly_complete


def at(hour: int) -> str:
    return f"2026-11-29T{hour:02}:00:00Z"


def spans(**hours: tuple[int, int]) -> dict[str, dict[str, str]]:
    return {
        topic: {"done_start": at(start), "done_end": at(end)}
        for topic, (start, end) in hours.items()
    }


def test_the_first_event_has_all_time_buckets() -> None:
    extra = newly_complete(spans(orders=(1, 3), carts=(0, 2)), {})
    assert extra == {
        "window_start": at(0),
        "window_end": at(3),
        "topics": {"orders": at(3), "carts": at(2)},
    }


def test_a_topic_that_was_left_is_announced_from_where_it_was() -> None:
    announced = {"orders": at(3), "carts": at(1), "others": at(2)}
    assert newly_complete(spans(orders=(0, 4), carts=(0, 4)), announced) == {
        "window_start": at(1),
        "window_end": at(4),
        "topics": {"orders": at(4), "carts": at(4), "others": at(2)},
    }
    # One that cannot be replicated holds up no other.
    assert newly_complete(spans(orders=(0, 4), carts=(0, 1)), announced) == {
        "window_start": at(3),
        "window_end": at(4),
        "topics": {"orders": at(4), "carts": at(1), "others": at(2)},
    }


def test_nothing_new_is_no_event() -> None:
    assert newly_complete(spans(orders=(0, 4)), {"orders": at(4)}) is None
    assert newly_complete({}, {}) is None


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 23), st.booleans()), max_size=20))
def test_every_time_bucket_is_in_a_window_also_of_runs_that_die_before_they_announce(
    runs: list[tuple[str, int, bool]],
) -> None:
    reached: dict[str, int] = {}
    announced: dict[str, str] = {}
    covered: set[tuple[str, int]] = set()
    for topic, hour, dies in [*runs, ("a", 23, False), ("b", 23, False)]:
        reached[topic] = max(hour, reached.get(topic, 0))
        extra = newly_complete(spans(**{topic: (0, reached[topic])}), announced)
        if dies or extra is None:
            continue
        announced = extra["topics"]
        first, end = (int(extra[name][11:13]) for name in ("window_start", "window_end"))
        covered |= {(topic, one) for one in range(first, end)}
    assert covered == {(topic, one) for topic in "ab" for one in range(23)}
