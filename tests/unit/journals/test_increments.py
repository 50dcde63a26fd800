"""How far the messages of a persistence id are read, where a run ends at a time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.unit.conftest import Examples
from tidemark.journals.pekko import shapes
from tidemark.journals.pekko.messages.increments import before_end
from tidemark.spark.shapes import ddl

END = 10_000
FEW = 16
KEY = ["persistence_id", "partition_nr"]


@dataclass(frozen=True)
class History:
    """The times (epoch ms) of a persistence id's messages by sequence nr, and what is asked.

    Attributes:
        times: by sequence nr.
        partition_size: sequence nrs of a partition.
        first_nr: where the read begins.
        named_nr: a sequence nr that another table records.
    """

    times: dict[int, int]
    partition_size: int
    first_nr: int
    named_nr: int | None = None

    def partition(self, sequence_nr: int) -> int:
        """Return the partition of a message."""
        return (sequence_nr - 1) // self.partition_size

    @property
    def behind(self) -> list[int]:
        """The sequence nrs from the first one on."""
        return sorted(nr for nr in self.times if nr >= self.first_nr)

    @property
    def wanted(self) -> list[int]:
        """The sequence nrs before the first message of the end, and those up to the named one."""
        end = next((nr for nr in self.behind if self.times[nr] >= END), 1 << 62)
        return [nr for nr in self.behind if nr < end or nr <= (self.named_nr or 0)]


def read(spark: SparkSession, histories: list[History]) -> tuple[list[list[int]], int]:
    """Return the sequence nrs that are read of each history, and the number of rounds."""
    events, highest = [], []
    for place, history in enumerate(histories):
        last: dict[int, int] = {}
        for nr in history.behind:
            last[history.partition(nr)] = nr
        events += [
            (str(place), history.partition(nr), nr, epoch_ms)
            for nr, epoch_ms in history.times.items()
        ]
        highest += [
            (str(place), nr, history.first_nr, high, history.times[high], history.named_nr)
            for nr, high in last.items()
        ]
    stored = spark.createDataFrame(events, ddl({**shapes.PARTITIONED_EVENTS, "epoch_ms": "bigint"}))
    rounds = 0

    def ask(asked: DataFrame) -> DataFrame:
        nonlocal rounds
        rounds += 1
        in_range = F.col("sequence_nr").between(F.col("first_nr"), F.col("last_nr"))
        first = F.min(F.struct("sequence_nr", "epoch_ms")).alias("first")
        found = asked.join(stored, on=KEY).where(in_range).groupBy(*KEY).agg(first)
        return found.select(*KEY, "first.*")

    ranges = before_end(spark.createDataFrame(highest, ddl(shapes.HIGHEST)), END, ask)
    numbers: list[list[int]] = [[] for _ in histories]
    for row in ranges.collect():
        history = histories[int(row.persistence_id)]
        numbers[int(row.persistence_id)] += [
            nr
            for nr in history.times
            if history.partition(nr) == row.partition_nr and row.first_nr <= nr <= row.last_nr
        ]
    return [sorted(found) for found in numbers], rounds


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Draw a history with lost messages, whose clock may go back."""
    steps = draw(st.lists(st.integers(-3000, 9000), min_size=1, max_size=80))
    lost = draw(st.sets(st.integers(1, len(steps)), max_size=30))
    times = dict(enumerate(accumulate(steps, initial=draw(st.integers(0, END))), start=1))
    return History(
        {nr: epoch_ms for nr, epoch_ms in times.items() if nr not in lost},
        draw(st.sampled_from([1, 7, 40, 1000])),
        draw(st.integers(1, 60)),
        draw(st.none() | st.integers(1, 90)),
    )


def test_every_message_before_the_end_is_read(spark: SparkSession, examples: Examples) -> None:
    drawn = examples(histories(), 100)
    numbers, _ = read(spark, drawn)
    for history, found in zip(drawn, numbers, strict=True):
        assert set(history.wanted) <= set(found) <= set(history.behind)


def spread(before: int, after: int, power: float = 1.0) -> dict[int, int]:
    """Return so many messages before the end and after it, in even or uneven steps of time."""
    earlier = [int(END * (nr / before) ** power) - 1 for nr in range(1, before + 1)]
    later = [END + int(5 * END * (nr / after) ** power) for nr in range(after)]
    return dict(enumerate([*earlier, *later], start=1))


def test_few_messages_after_the_end_are_read(spark: SparkSession) -> None:
    """Also where the time passes in jerks."""
    numbers_of_messages = [(0, 500), (1, 500), (30, 2000), (2000, 30), (400, 2000)]
    drawn = [
        History(spread(before, after, power), 50_000, 1)
        for before, after in numbers_of_messages
        for power in (0.1, 1.0, 8.0)
    ]
    numbers, rounds = read(spark, drawn)
    for history, found in zip(drawn, numbers, strict=True):
        assert set(history.wanted) <= set(found)
        assert len(found) - len(history.wanted) <= max(FEW, len(history.wanted) / 4)
    assert rounds <= 20


def test_an_end_in_even_time_is_found_in_few_rounds(spark: SparkSession) -> None:
    drawn = [History({nr: nr * 50 for nr in range(1, 2001)}, 700, 1)]
    assert read(spark, drawn)[1] <= 4


def test_a_message_that_disappears_during_the_search_ends_it(spark: SparkSession) -> None:
    highest = spark.createDataFrame([("p", 0, 1, 900, END, None)], ddl(shapes.HIGHEST))
    nothing = spark.createDataFrame([], ddl({**shapes.PARTITIONED_EVENTS, "epoch_ms": "bigint"}))
    assert before_end(highest, END, lambda _: nothing).isEmpty()
