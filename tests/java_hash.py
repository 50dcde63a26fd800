"""Java's `String.hashCode`, for tests that share no code with the product."""

from __future__ import annotations

from functools import reduce


def java_hash(text: str) -> int:
    """Return the hash of a text, which Java computes of its UTF-16 code units in 32 bits."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    unsigned = reduce(lambda before, unit: (31 * before + unit) & 0xFFFF_FFFF, units, 0)
    return (unsigned ^ 0x8000_0000) - 0x8000_0000
