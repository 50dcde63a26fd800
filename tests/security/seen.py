"""What everybody on this machine sees of a process."""

from __future__ import annotations

from collections.abc import Iterable

import psutil


def process_tree(root: psutil.Process) -> list[psutil.Process]:
    """Return a process and all that it has started."""
    return [root, *root.children(recursive=True)]


def listening(tree: Iterable[psutil.Process]) -> set[str]:
    """Return the addresses on which processes listen."""
    return {
        connection.laddr.ip
        for process in tree
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
