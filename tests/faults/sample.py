"""Which cases of a crash matrix `make test` runs; `make soak` runs all of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from _pytest.mark.structures import ParameterSet

from tests.faults.seams import Seam


def sampled(cases: Sequence[tuple[str, Seam]], sample: set[tuple[str, Seam]]) -> list[ParameterSet]:
    """The cases as parameters; those outside the sample are marked soak.

    Raises:
        ValueError: something of the sample is not a case.
    """
    if unknown := sample - set(cases):
        raise ValueError(f"no such cases: {sorted(map(str, unknown))}")
    return [pytest.param(*case, marks=[] if case in sample else pytest.mark.soak) for case in cases]
