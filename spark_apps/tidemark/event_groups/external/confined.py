"""A script that starts a command which cannot read the memory or environment of other processes.

Processes of one user can read each other's environment in `/proc`, and each other's memory. The
password of Cassandra is in the environment of a run, of the JVM of spark-submit around the run, and
of Airflow. Removing it from `os.environ` does not help, since `/proc` shows the environment with
which a process was started. `PR_SET_DUMPABLE` would protect only the run, not the JVM and Airflow,
and would also keep debuggers out.

So the command enters a Landlock domain. Processes in a domain, and all that they start, can read
the memory only of processes in that domain. A domain has to restrict a right over files: this
domain names the right to move a file to another directory, and grants it everywhere.

Linux has this right since 5.19. On an older kernel the command starts without a domain.
"""

from __future__ import annotations

import ctypes
import os
import sys

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Numbers of system calls, the same on every processor architecture."""
_REFER = 1 << 13
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAPBSET_DROP = 24
_OVER_OTHER_PROCESSES = (19, 21, 38)
"""CAP_SYS_PTRACE, CAP_SYS_ADMIN and CAP_PERFMON. With the last, root reads even the memory of
processes outside its domain."""


def main() -> None:
    """Enter the domain, and become the command in the arguments."""
    if sys.platform == "linux":
        _drop_capabilities()
        _enter_domain()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606  our own command


def _drop_capabilities() -> None:
    """Drop capabilities that the command would have as root; other users do not have them."""
    libc = ctypes.CDLL(None)
    for capability in _OVER_OTHER_PROCESSES:
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def _enter_domain() -> None:
    libc = ctypes.CDLL(None)
    handled = ctypes.c_uint64(_REFER)
    rules = libc.syscall(
        _CREATE_RULESET, ctypes.byref(handled), ctypes.c_size_t(ctypes.sizeof(handled)), 0
    )
    if rules < 0:
        # The kernel has no Landlock, or an older one, or a container's filter refuses it.
        return
    root = os.open("/", os.O_PATH)
    allowed = _REFER.to_bytes(8, sys.byteorder) + root.to_bytes(4, sys.byteorder)
    libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, allowed, 0)
    # The kernel requires this first. Programs such as sudo then give no further rights.
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.syscall(_RESTRICT_SELF, rules, 0)
    os.close(root)
    os.close(rules)


if __name__ == "__main__":
    main()
