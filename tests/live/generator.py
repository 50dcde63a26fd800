"""A generator of histories: the same seed always gives the same history."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.live.steps import (
    Appear,
    Away,
    BySlices,
    ByWindow,
    Cleanup,
    Delete,
    History,
    Kill,
    Lose,
    Mend,
    Miss,
    Pass,
    Persist,
    Poison,
    Rebucket,
    Recover,
    Redefine,
    Refused,
    Run,
    Settle,
    Step,
    Within,
)
from tests.live.world import CADENCES, Profile

TAGS = (("red",), ("red", "blue"), ("blue",), ("green",), ())
SKEWS = (0.0, 0.0, 0.0, 3.0, -4.0, 300.0, -400.0, 7_000.0, -7_000.0, 80_000.0, -80_000.0)
SHAPES = (("Hour", "daily"), ("Hour", "daily"), ("Day", "daily"), ("Minute", "hourly"), ("Hour", "hourly"))  # fmt: skip  # noqa: E501
TAG_MODELS = ("tag_sums", "tag_log", "lake")
BY_BUCKET = {"tag_sums", "sums", "lake"}
OTHER = {"Minute": "Hour", "Hour": "Day", "Day": "Hour"}
MODELS = (*TAG_MODELS, "sums", "newest", "log", "books")
MOST_SEAMS = 8
TIMES_TO_LIVE = 9
"""The time to live of tag-view rows in scheduled intervals, in histories where rows expire."""
FORCED = (("force", True),)


@dataclass
class Writer:
    """A persistence id of a history, as the generator knows it."""

    name: str
    skew: float
    busy: float
    deletes: bool


def profile_of(seed: int) -> Profile:
    """Return the profile of the history of a seed."""
    random = Random(f"profile {seed}")
    bucket, cadence = random.choice(SHAPES)
    models = random.sample(MODELS, random.choice((1, 2, 2, 3)))
    tags_by_pekko = random.random() < 0.5
    ttl = round(CADENCES[cadence].total_seconds() * TIMES_TO_LIVE)
    expires = not tags_by_pekko and random.random() < 0.3
    settings = (("EVENTS_BY_TAG_TIME_TO_LIVE", str(ttl)),) if expires else ()
    days = 3 if cadence == "daily" and not expires and random.random() < 0.3 else 0
    named = tuple(sorted(models))
    is_indexed = random.random() < 0.5
    return Profile(tags_by_pekko, bucket, cadence, named, settings, days, is_indexed)


def history_of(seed: int, intervals: int) -> History:
    """Return a history of `intervals` scheduled intervals."""
    random, profile = Random(seed), profile_of(seed)
    reads_messages = any(model not in TAG_MODELS for model in profile.models)
    eager = profile.tags_by_pekko and not reads_messages
    is_kept = random.random() < 0.3
    writers = [
        Writer(
            f"{random.choice('abc')}|{number}",
            random.choice(SKEWS),
            random.choice((0.1, 0.5, 0.9)),
            not is_kept and random.random() < 0.5,
        )
        for number in range(random.randint(2, 5))
    ]
    length = CADENCES[profile.cadence].total_seconds()
    steps: list[Step] = []
    # After the switch a result by time bucket has to be rebuilt, which histories leave out.
    fits = (profile.bucket, profile.cadence) != ("Hour", "hourly")
    is_rebucketed = fits and not set(profile.models) & BY_BUCKET and random.random() < 0.3
    switched = random.randrange(1, intervals) if is_rebucketed and intervals > 1 else 0
    for number in range(intervals):
        if switched and number == switched:
            steps.append(Rebucket(OTHER[profile.bucket]))
        for part in range(random.choice((1, 1, 2, 3))):
            if part:
                steps.append(Pass(round(length * random.random() / 3)))
            for writer in writers:
                if random.random() < writer.busy:
                    steps.extend(_acts(random, profile, writer, eager))
        steps.extend(_interval(random, profile, writers, eager))
    return tuple(steps)


def _acts(random: Random, profile: Profile, writer: Writer, eager: bool) -> list[Step]:
    tags = random.choice(TAGS)
    crash = profile.tags_by_pekko and random.random() < 0.1
    count = random.choice((1, 1, 2, 5, 30))
    lag = random.random() < 0.2
    steps: list[Step] = [Persist(writer.name, tags, count, writer.skew, crash, lag)]
    if crash and random.random() < 0.3:
        steps.append(Recover(writer.name))
    if writer.deletes and random.random() < 0.4:
        steps.append(_deletion(random, writer, eager))
    return steps


def _deletion(random: Random, writer: Writer, eager: bool) -> Delete:
    return Delete(writer.name, random.choice((1, 1, 2, 5)), consumed=not eager)


def _interval(random: Random, profile: Profile, writers: list[Writer], eager: bool) -> list[Step]:
    """Return the steps that end an interval."""
    application = random.choice(("tag_write", "tag_write", "validate", "project"))
    seam = random.randint(1, MOST_SEAMS)
    writer = random.choice(writers)
    loses = not profile.tags_by_pekko and not set(profile.models) & set(TAG_MODELS)
    is_kept = not any(other.deletes for other in writers)
    is_whole = is_kept and not profile.settings and not profile.retention_days
    deleting = random.choice([other for other in writers if other.deletes] or [writer])
    ends: list[tuple[float, list[Step]]] = [
        (20, [Run()]),
        (15, [Miss()] * random.choice((1, 1, 2))),
        (10, [Kill(application, seam), Run()]),
        (7, [Refused()]),
        (5, [Away(random.choice((1, 2)))]),
        (5, [Run(until=random.choice(("tag_write", "validate")))]),
        (4, [Run(), Mend()]),
        (4, [Run(), ByWindow("tag_write", random.randint(3, 9), random.randint(1, 4), FORCED)]),
        (3, [Run(), ByWindow("project", random.randint(3, 9), random.randint(1, 4))]),
        (5, [Run(), BySlices(random.choice((2, 4)))]),
        (5 if is_whole else 0, [Redefine(), Run()]),
        (0 if is_kept else 3, [Run(), Cleanup(deleting.name), Run()]),
        (3 if loses else 0, [Lose(writer.name), Persist(writer.name), Run(), Appear(writer.name)]),
        (0 if profile.tags_by_pekko else 3, [Poison(writer.name), Run(), Settle()]),
        (
            0 if is_kept else 24,
            [Within(application, seam, _deletion(random, deleting, eager)), Run()],
        ),
        (10, [Within(application, seam, Persist(writer.name, TAGS[1], 1, writer.skew)), Run()]),
    ]
    [chosen] = random.choices([steps for _, steps in ends], [weight for weight, _ in ends])
    return chosen
