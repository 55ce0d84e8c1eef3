"""Processes that run a module of this package: their environment, and their end."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1  # prctl(2)


def child_environment() -> dict[str, str]:
    """Return the environment of this process with this package on the PYTHONPATH."""
    search_path = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(search_path)}


def end_with_parent() -> None:
    """Receive SIGTERM when the parent process dies, even by SIGKILL (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
