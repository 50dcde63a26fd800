"""Deaths of a run inside the tests' own process, after a kind of write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tests.faults.seams import Seam


class Died(BaseException):
    """The end of a run that is killed; nothing of the application catches it."""


@contextmanager
def dying_after(seam: Seam, calls: int) -> Iterator[None]:
    """Let the run die after a seam was passed so often."""
    owner, name = seam.place()
    function = getattr(owner, name)
    left = [calls]

    def and_die(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        left[0] -= 1
        if not left[0]:
            raise Died
        return result

    with patch.object(owner, name, and_die):
        yield
