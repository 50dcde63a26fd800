"""Vectors of the key arithmetic, shared by the tests of its Python and Spark forms."""

from __future__ import annotations

import json
from pathlib import Path

from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize

VECTORS = Path(__file__).parent / "data" / "slice_vectors.tsv"
# (epoch ms, bucket size, bucket): Pekko's TimeBucketSpec, and a row that the real plugin wrote.
TIME_BUCKETS = [
    (1409545135047, BucketSize.DAY, 1409529600000),
    (1409545135047, BucketSize.HOUR, 1409544000000),
    (1409545135047, BucketSize.MINUTE, 1409545080000),
    (1795227954557, BucketSize.HOUR, 1795226400000),
    (0, BucketSize.DAY, 0),
    (-1, BucketSize.MINUTE, -60_000),
    (-1, BucketSize.DAY, -86_400_000),
    (-86_400_000, BucketSize.DAY, -86_400_000),
    (keys.MIN_EPOCH_MS, BucketSize.DAY, keys.MIN_EPOCH_MS),
    (keys.MAX_EPOCH_MS, BucketSize.HOUR, 103_072_856_400_000),
]
# (text, ticks, epoch ms): both ends of the range, the Unix epoch and a row that Pekko wrote.
TIMEUUIDS = [
    ("00000000-0000-1000-8000-000000000000", 0, -12_219_292_800_000),
    ("ffffffff-ffff-1fff-bfff-ffffffffffff", 2**60 - 1, 103_072_857_660_684),
    ("13814000-1dd2-11b2-8000-010000000000", 0x01B21DD213814000, 0),
    ("13813fff-1dd2-11b2-8000-010000000000", 0x01B21DD213813FFF, -1),
    ("f25b6171-e552-11f1-b86a-3364b77aea1d", 0x1F1E552F25B6171, 1_795_227_984_135),
    ("F252D5F0-E552-11F1-B86A-3364B77AEA1D", 0x1F1E552F252D5F0, 1_795_227_984_079),
]
PARTITIONS = [(1, 0), (500_000, 0), (500_001, 1), (1_000_000, 1), (2**63 - 1, 18446744073709)]

# (id, number of segments, segment of the head): kafka-journal's SegmentNrTest, and two by hand.
HEAD_SEGMENTS = [
    *((name, *place) for name in ("id", "ID") for place in ((1, 0), (100, 55), (2**31 - 1, 3355))),
    ("journal ID", 10_000, 5668),
    # Hashes of Integer.MIN_VALUE and below zero.
    ("polygenelubricants", 100, 48),
    ("ÄÖÜ", 10_000, 6986),
]
EVENT_SEGMENTS = [(1, 2, 0), (2, 2, 0), (3, 2, 1), (45_629, 10_000, 4), (2**63 - 1, 2, 2**62 - 1)]
"""(seq_nr, segment size, segment)."""


def slice_vectors() -> list[tuple[str, int, int, str]]:
    """Read the golden vectors as (persistence id, Java hash, slice, entity type)."""
    lines = VECTORS.read_text(encoding="utf-8").splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return [(json.loads(pid), int(hashed), int(place), kind) for pid, hashed, place, kind in rows]
