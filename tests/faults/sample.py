"""The choice of the cases of a crash matrix that `make test` runs; `make soak` runs all."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from _pytest.mark.structures import ParameterSet

from tests.faults.seams import Seam


def sampled(cases: Sequence[tuple[str, Seam]], sample: set[tuple[str, Seam]]) -> list[ParameterSet]:
    """Return the cases as parameters; cases outside the sample are marked soak.

    Raises:
        ValueError: an element of the sample is not a case.
    """
    if unknown := sample - set(cases):
        raise ValueError(f"no such cases: {sorted(map(str, unknown))}")
    return [pytest.param(*case, marks=[] if case in sample else pytest.mark.soak) for case in cases]
