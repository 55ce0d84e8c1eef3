"""Runs a program that receives a signal when its parent process dies, even by SIGKILL (Linux only).

Usage: python with_parent.py PARENT_PID SIGNAL PROGRAM [ARGUMENT ...]
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # prctl(2)


def end_with_parent(death_signal: signal.Signals = signal.SIGTERM) -> None:
    """Receive a signal when the parent process dies, even by SIGKILL (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death_signal)


def main() -> None:
    parent, death_signal, command = int(sys.argv[1]), signal.Signals[sys.argv[2]], sys.argv[3:]
    end_with_parent(death_signal)
    if os.getppid() != parent:  # The parent died before prctl was called.
        sys.exit(1)
    os.umask(0o077)  # Only the user may read the sockets and files of the program.
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
