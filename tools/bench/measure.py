"""Runs a command and prints its duration and resource usage as JSON.

usage: measure.py LOG COMMAND [ARGUMENT ...]

Each run needs a new process of this script, because the system adds up the usage of all ended children, and reports
the peak of the largest.
"""

import json
import os
import sys
import time


def main(log: str, command: list[str]) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, output, 2),
    ]
    started = time.monotonic()
    child = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    _, status, usage = os.wait4(child, 0)
    seconds = time.monotonic() - started
    unit = 1 if sys.platform == "darwin" else 1024
    result = {
        "exitCode": os.waitstatus_to_exitcode(status),
        "seconds": seconds,
        "userSeconds": usage.ru_utime,
        "systemSeconds": usage.ru_stime,
        "peakBytes": usage.ru_maxrss * unit,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
