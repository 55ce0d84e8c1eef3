"""Base class and helpers for the parts of the EKS API."""

import uuid
from datetime import datetime, timezone
from typing import Any

from moto.core.responses import ActionResult
from moto.eks.exceptions import ResourceNotFoundException
from moto.eks.responses import EKSResponse

# The newest first. AWS supported these versions without a surcharge when this was written.
KUBERNETES_VERSIONS = ["1.36", "1.35", "1.34"]

# An update is already successful when the call that requests it returns.
DONE = {"status": "Successful", "type": "ConfigUpdate", "params": [], "errors": []}


def now() -> datetime:
    return datetime.now(timezone.utc)


def not_found(message: str) -> Exception:
    return ResourceNotFoundException(message=message)


class Kept:
    """State of one cluster that moto does not store."""

    def __init__(self) -> None:
        self.addons: dict[str, dict[str, Any]] = {}
        self.entries: dict[str, dict[str, Any]] = {}


class Base(EKSResponse):
    """moto's EKS API, whose clusters have additional state in `kept`."""

    def _cluster(self, name: str | None = None) -> Any:
        wanted = name or self._get_param("name") or self._get_param("clusterName")
        cluster = self.eks_backend.describe_cluster(name=wanted)
        if not hasattr(cluster, "kept"):
            cluster.kept = Kept()
        return cluster

    def _arn(self, kind: str, *parts: str) -> str:
        return f"arn:{self.partition}:eks:{self.region}:{self.current_account}:{kind}/{'/'.join(parts)}"

    def _update(self, kind: str, params: dict[str, Any]) -> ActionResult:
        changes = [{"type": key, "value": str(value)} for key, value in params.items() if value is not None]
        update = {**DONE, "id": str(uuid.uuid4()), "type": kind, "params": changes, "createdAt": now()}
        return ActionResult({"update": update})
