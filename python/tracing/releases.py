"""Releases of Triton and the TorchScript versions that they read. Does not import torch."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "python" / "triton-releases.json"
DOCKERFILE = ROOT / "Dockerfile"


def unreadable_by_server(artifact: Path, table: Path = TABLE, dockerfile: Path = DOCKERFILE) -> str | None:
    """Return why the Triton release of the Dockerfile may be unable to read a TorchScript file; None if it is able.

    The version of a file is the highest that one of its operators needs. A reader rejects a version above its own.
    """
    named = re.search(r"^ARG TRITON_RELEASE=(\S+)$", dockerfile.read_text(encoding="utf-8"), re.MULTILINE)
    release = "" if named is None else named.group(1)
    releases = {row["release"]: row for row in json.loads(table.read_text(encoding="utf-8"))["releases"]}
    if release not in releases:
        return (
            f"the Dockerfile names Triton {release}, which {table.name} lacks: add a row with the version that it reads"
        )
    version, reads = file_version(artifact), releases[release]["torchScript"]
    if version <= reads:
        return None
    return (
        f"the file has TorchScript version {version}, but Triton {release} reads up to {reads}: name a newer release "
        "in the Dockerfile, or avoid the operator (caffe2/serialize/versions.h of PyTorch names those of each version)"
    )


def file_version(artifact: Path) -> int:
    """Return the version of a TorchScript archive."""
    with zipfile.ZipFile(artifact) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"[^/]+/(\.data/)?version", name)]
        return int(archive.read(names[0]))
