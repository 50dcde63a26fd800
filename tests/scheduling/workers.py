"""Which worker of xdist runs which group of tests."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.scheduling.plan import WAITING, group


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """A scheduler that gives each worker a whole group of tests at a time, in the given order.

    From three workers on, one takes the groups of WAITING, beside the others' work, and then ends.
    """

    _waiter: WorkerController | None = None

    def schedule(self) -> None:
        """Choose the worker that waits, then give each worker its first groups."""
        if self.collection is None and len(self.nodes) > 2:
            self._waiter = self.nodes[0]
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        is_done = not any(queued in WAITING for queued in self.workqueue)
        if is_done and node is self._waiter:
            self._waiter.shutdown()
        else:
            super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if self._waiter in self.nodes:
            waits = node is self._waiter
            # Workers without other work left take the groups that wait, too.
            for queued in self.workqueue:
                if (queued in WAITING) == waits:
                    self.workqueue.move_to_end(queued, last=False)
                    break
        super()._assign_work_unit(node)
