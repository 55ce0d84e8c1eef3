"""Runs a program that gets a signal when the process that started it dies, even by SIGKILL (Linux only).

Usage: python with_parent.py PARENT_PID SIGNAL PROGRAM [ARGUMENT ...]
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # prctl(2)


def main() -> None:
    parent, death_signal, command = int(sys.argv[1]), signal.Signals[sys.argv[2]], sys.argv[3:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death_signal)
    if os.getppid() != parent:  # It died before the request above.
        sys.exit(1)
    os.umask(0o077)  # Its sockets and files are its user's alone.
    os.execvp(command[0], command)


main()
