"""The run over a topic: reads from the stream's position to the topic's end when the run starts.

Groups are stored before offsets: a run after a crash reads the same records again, and a group that
exists is not submitted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tidemark.cassandra.schema import create_own_tables
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import InvalidInput, TidemarkError, WrongData, reason_of, together
from tidemark.event_groups.checks import Checks
from tidemark.event_groups.definition.file import GroupDefinition, parse
from tidemark.event_groups.external.records import TopicRecord, batches
from tidemark.event_groups.stream.store import Stream
from tidemark.event_groups.stream.submission import submit
from tidemark.event_groups.topic.position import TopicPosition
from tidemark.event_groups.topic.store import QUARANTINE, TopicSource
from tidemark.ledger.locks import Locks
from tidemark.replicate.kafka.topics import TopicPartition, Topics
from tidemark.text import shortened

_MAX_LISTED = 20


def lock_of(stream: str, topic: str) -> str:
    """Return the lock of a topic whose records are submitted to a stream."""
    return f"event-group-topics/{stream}/{topic}"


def run_submit_topic(run: RunContext, stream: str, topic: str, *, dry_run: bool) -> Outcome:
    """Submit the groups of the records that no run has read yet, in the order of each partition.

    A rejected record goes into quarantine. A partition that cannot continue stays at its offset:
    the others are submitted, and the run fails at its end. A dry run only checks the records.

    Raises:
        InvalidInput: there is no such topic, or no directory of projection files.
        KafkaUnavailable: Kafka does not answer.
        LockHeld: another run submits the records of the topic to the stream.
        LockLost: the lock was lost during the run.
    """
    partitions = Topics(run.settings).partitions_of(topic)
    create_own_tables(run.control, run.settings)
    checks = Checks(run, stream)
    if dry_run:
        submission = _TopicSubmission(run, stream, checks, None)
        submission.take(_positions(run, stream, partitions))
        return submission.outcome(topic)
    with Locks.of(run, [lock_of(stream, topic)]) as locks:
        submission = _TopicSubmission(run, stream, checks, locks.check)
        submission.take(_positions(run, stream, partitions))
    return submission.outcome(topic)


def _positions(
    run: RunContext, stream: str, partitions: Sequence[TopicPartition]
) -> list[TopicPosition]:
    # Stored offsets are read before Kafka's, so that none of them can be after the ends.
    stored = TopicSource(run, stream).offsets(partitions[0].topic)
    offsets = Topics(run.settings).offsets(partitions)
    return [TopicPosition(p, stored.get(p), offsets[p]) for p in partitions]


class _TopicSubmission:
    """Submits the groups of records; without `ensure_locked` it writes nothing."""

    def __init__(
        self,
        run: RunContext,
        stream: str,
        checks: Checks,
        ensure_locked: Callable[[], None] | None,
    ) -> None:
        self._run, self._checks, self._ensure_locked = run, checks, ensure_locked
        self._stream, self._source = Stream(run, stream), TopicSource(run, stream)
        self._counts = {"records": 0, "groups_submitted": 0, "records_refused": 0}
        self._problems: list[TidemarkError] = []
        self._submitted: list[str] = []
        self._refused: list[str] = []
        self._first_refused: dict[TopicPartition, int] = {}
        self._partitions = 0

    def take(self, positions: Sequence[TopicPosition]) -> None:
        """Submit the records of all partitions that can continue."""
        checked = [(p, p.problem()) for p in positions]
        self._problems = [problem for _, problem in checked if problem]
        readable = [p for p, problem in checked if not problem and p.next < p.held.end]
        self._partitions = len(readable)
        reached: dict[TopicPartition, int] = {}
        for batch in batches(
            self._run.settings, {p.partition: (p.next, p.held.end) for p in readable}
        ):
            for record in batch.records:
                self._take(record)
            reached |= batch.reached
            self._move(
                {
                    # Until the run has reported a rejection, another run must find it again.
                    partition: min(offset, self._first_refused.get(partition, offset))
                    for partition, offset in batch.reached.items()
                }
            )
            self._run.say(f"{self._counts['records']:,} records were taken")
        self._move({partition: reached[partition] for partition in self._first_refused})

    def _move(self, reached: dict[TopicPartition, int]) -> None:
        if self._ensure_locked is not None:
            self._ensure_locked()
            self._source.move(reached)

    def _take(self, record: TopicRecord) -> None:
        self._counts["records"] += 1
        try:
            line, is_new = self._submit(_parsed(record, self._checks))
        except InvalidInput as error:
            self._refuse(record, error)
            return
        self._submitted.append(line)
        self._counts["groups_submitted"] += is_new

    def _submit(self, definition: GroupDefinition) -> tuple[str, bool]:
        if self._ensure_locked is None:
            return f"{definition.group.group}: can be submitted", False
        self._ensure_locked()
        return submit(self._run, self._stream, definition)

    def _refuse(self, record: TopicRecord, error: InvalidInput) -> None:
        self._counts["records_refused"] += 1
        self._refused.append(f"{record} is refused: {error}")
        self._first_refused.setdefault(record.partition, record.offset)
        if self._ensure_locked is not None:
            self._ensure_locked()
            self._source.quarantine(record, reason_of(error))

    def outcome(self, topic: str) -> Outcome:
        """Return how the run ended."""
        problems = [*self._problems]
        if self._refused:
            problems.append(
                WrongData(
                    f"{len(self._refused)} of {self._counts['records']} records were refused",
                    where=f"topic {topic}",
                    do=f"see {QUARANTINE}, and submit what is still wanted once more",
                )
            )
        lines = [
            *map(str, self._problems),
            *shortened(self._refused, _MAX_LISTED),
            *shortened(self._submitted, _MAX_LISTED),
        ]
        failed = len(self._problems)
        total = self._partitions + failed
        if self._ensure_locked is None:
            return Outcome(RunState.PLANNED, PieceCounts(total), self._counts, lines)
        pieces = PieceCounts(total, self._partitions, 0, failed)
        if problems:
            error = problems[0] if len(problems) == 1 else _combined(problems)
            return Outcome(RunState.FAILED, pieces, self._counts, lines, error)
        state = RunState.DONE if self._counts["groups_submitted"] else RunState.NOTHING
        lines = lines or [f"all records of {topic} were taken before"]
        return Outcome(state, pieces, self._counts, lines)


def _combined(problems: Sequence[TidemarkError]) -> TidemarkError:
    what = "; ".join(f"{problem.what} ({problem.where})" for problem in problems)
    return together(what, [problem.exit_status for problem in problems])


def _parsed(record: TopicRecord, checks: Checks) -> GroupDefinition:
    """Read the group of a record, and check it.

    Raises:
        InvalidInput: the record has no group that can be submitted.
    """
    if record.value is None:
        raise InvalidInput("the record has no value", do="write a group in YAML or JSON")
    try:
        text = record.value.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput("the value is not UTF-8", do="write it as UTF-8") from None
    definition, fault = parse(text, Path(str(record)))
    checks.check(definition, fault)
    return definition
