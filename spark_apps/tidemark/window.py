"""The window of a run: a half-open interval of event time in UTC."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidemark.errors import InvalidInput
from tidemark.partitioning.keys import BucketSize

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_millis(moment: datetime) -> int:
    """Return the epoch milliseconds of an aware datetime, rounded down."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


def from_millis(millis: int) -> datetime:
    """Return the UTC datetime of epoch milliseconds."""
    return EPOCH + timedelta(milliseconds=millis)


def iso(moment: datetime) -> str:
    """Format an aware datetime as ISO 8601 in UTC with `Z`, without a zero fraction."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, order=True)
class Window:
    """Event time in [start, end), both aware and in UTC."""

    start: datetime
    end: datetime

    @classmethod
    def parse(cls, start: str | None, end: str | None) -> Window:
        """Parse the window of `--window-start` and `--window-end`.

        Raises:
            InvalidInput: a bound is missing or not ISO 8601 with a zone, or the window is empty or
                reversed.
        """
        if not start or not end:
            raise InvalidInput(
                "no window",
                where="--window-start, --window-end",
                do="give both, such as 2013-01-01T00:00:00Z 2013-01-02T00:00:00Z, end exclusive",
            )
        window = cls(parse_moment(start, "--window-start"), parse_moment(end, "--window-end"))
        if window.start >= window.end:
            raise InvalidInput(
                f"the window is empty or reversed: {window}",
                where="--window-start, --window-end",
                do="the end is exclusive and must be after the start",
            )
        return window

    def require_whole_buckets(self, size: BucketSize, now: datetime) -> None:
        """Reject a window that cuts a time bucket or ends after `now`.

        Raises:
            InvalidInput: a bound is not at a bucket's edge, or the end is in the future.
        """
        for name, bound in (("--window-start", self.start), ("--window-end", self.end)):
            if to_millis(bound) % size.milliseconds or bound.microsecond % 1000:
                raise InvalidInput(
                    f"{iso(bound)} cuts a time bucket of bucket size {size.value}",
                    where=name,
                    do=f"align it to a whole {size.value.lower()} in UTC",
                )
        if self.end > now:
            raise InvalidInput(
                f"the window ends in the future: {iso(self.end)} is after {now:%Y-%m-%dT%H:%M:%SZ}",
                where="--window-end",
                do="end it at a time bucket that is over",
            )

    def buckets(self, size: BucketSize) -> Iterator[int]:
        """Return the time buckets in the window, as epoch milliseconds, ascending."""
        return iter(range(to_millis(self.start), to_millis(self.end), size.milliseconds))

    @classmethod
    def hull(cls, buckets: Collection[int], size: BucketSize) -> Window | None:
        """Return the smallest window around the time buckets (epoch ms); None without buckets."""
        if not buckets:
            return None
        return cls(from_millis(min(buckets)), from_millis(max(buckets) + size.milliseconds))

    def extended(self, other: Window | None) -> Window:
        """Return the smallest window around this window and another."""
        if other is None:
            return self
        return Window(min(self.start, other.start), max(self.end, other.end))

    def __str__(self) -> str:
        return f"[{iso(self.start)}, {iso(self.end)})"


def parse_moment(text: str, option: str) -> datetime:
    """Parse an ISO 8601 time of an option; a date alone is its midnight in UTC.

    Raises:
        InvalidInput: the text is no time, or a time without a zone.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"not an ISO 8601 time: {text!r}", where=option, do="write 2013-01-01T00:00:00Z"
        ) from None
    if moment.tzinfo is None and len(text) > len("2013-01-01"):
        raise InvalidInput(
            f"a time without a zone: {text!r}", where=option, do=f"write {text}Z if it is in UTC"
        )
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def parse_first_time_bucket(text: str) -> int:
    """Parse `yyyyMMdd`, `yyyyMMddTHH` or `yyyyMMddTHH:mm`, UTC, into epoch milliseconds.

    Source: Pekko's EventsByTagSettings (docs/real-systems.md, "Settings").

    Raises:
        ValueError: the text has none of these forms.
    """
    for time_format in ("%Y%m%dT%H:%M", "%Y%m%dT%H", "%Y%m%d"):
        try:
            moment = datetime.strptime(text, time_format).replace(tzinfo=UTC)
        except ValueError:
            continue
        return to_millis(moment)
    raise ValueError("expected yyyyMMdd, yyyyMMddTHH or yyyyMMddTHH:mm")
