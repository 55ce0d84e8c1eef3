"""Compares the answers of trtexec with a golden request, for build-plan.sh. Needs only the standard library.

compare_plan.py prepare REQUEST FOLDER MIN MAX   writes FOLDER/input for --loadInputs and prints its shape for --shapes;
                                                 prints nothing if the sound is shorter than MIN or longer than MAX
compare_plan.py compare REQUEST OUTPUT           exits with 1 if OUTPUT (of --exportOutput) differs from the expected
                                                 answer by more than the tolerance
"""

from __future__ import annotations

import ast
import json
import math
import struct
import sys
from pathlib import Path


def read_npy(path: Path) -> tuple[list[int], bytes]:
    """Return the shape and the little-endian FP32 bytes of an .npy file."""
    data = path.read_bytes()
    wide = data[6] > 1
    start = 12 if wide else 10
    end = start + int.from_bytes(data[8:start], "little")
    header = ast.literal_eval(data[start:end].decode("latin1"))
    if header["descr"] != "<f4" or header["fortran_order"]:
        raise SystemExit(f"{path}: {header['descr']} in C order is not little-endian FP32")
    return list(header["shape"]), data[end:]


def prepare(request: Path, folder: Path, shortest: int, longest: int) -> None:
    shape, data = read_npy(request.parent / json.loads(request.read_text())["inputs"][0]["file"])
    if shortest <= shape[-1] <= longest:
        (folder / "input").write_bytes(data)
        print("x".join(map(str, shape)))


def compare(request: Path, output: Path) -> bool:
    expected = json.loads(request.read_text())["outputs"][0]
    shape, data = read_npy(request.parent / expected["file"])
    wanted = struct.unpack(f"<{len(data) // 4}f", data)
    received = next(one for one in json.loads(output.read_text()) if one["name"] == expected["name"])
    if received["dimensions"] != "x".join(map(str, shape)) or len(received["values"]) != len(wanted):
        print(f"{request.name}: {expected['name']} has shape {received['dimensions']}, expected {shape}")
        return False
    differences = [abs(float(got) - want) for got, want in zip(received["values"], wanted, strict=True)]
    # Not max(), which may skip NaN.
    within = all(difference <= expected["tolerance"]["absolute"] for difference in differences)
    largest = math.nan if any(map(math.isnan, differences)) else max(differences)
    print(f"{request.name}: largest difference {largest:.3g}, allowed {expected['tolerance']['absolute']:g}")
    return within


if __name__ == "__main__":
    command, request, place, *lengths = sys.argv[1:]
    if command == "prepare":
        prepare(Path(request), Path(place), *map(int, lengths))
    else:
        sys.exit(0 if compare(Path(request), Path(place)) else 1)
