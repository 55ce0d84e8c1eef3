"""Runs a program that gets SIGTERM when the process that started it dies, even by SIGKILL (Linux only).

Usage: python with_parent.py PARENT_PID PROGRAM [ARGUMENT ...]
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # prctl(2)


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # It died before the request above.
        sys.exit(1)
    os.execv(command[0], command)


main()
