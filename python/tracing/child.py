"""Processes that run a module of this package: their environment, and their end."""

from __future__ import annotations

import os
from pathlib import Path

from with_parent import end_with_parent

__all__ = ["child_environment", "end_with_parent"]


def child_environment() -> dict[str, str]:
    """Return the environment of this process with this package on the PYTHONPATH."""
    search_path = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(search_path)}
