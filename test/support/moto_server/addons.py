"""Add-ons of a cluster."""

import uuid
from typing import Any

from moto.core.responses import ActionResult
from moto.eks.exceptions import InvalidParameterException, ResourceInUseException

from moto_server.base import Base, not_found, now

ADDONS = {
    "coredns": "v1.12.4-eksbuild.1",
    "kube-proxy": "v1.34.0-eksbuild.4",
    "vpc-cni": "v1.20.4-eksbuild.2",
}


class Addons(Base):
    def create_addon(self) -> ActionResult:
        cluster = self._cluster()
        name = self._get_param("addonName")
        if name not in ADDONS:
            raise InvalidParameterException(message=f"Addon {name} specified is not supported")
        if name in cluster.kept.addons:
            raise ResourceInUseException(clusterName=cluster.name, addonName=name, message="Addon already exists.")
        addon = {
            "addonName": name,
            "clusterName": cluster.name,
            "status": "ACTIVE",
            "addonVersion": self._get_param("addonVersion") or ADDONS[name],
            "health": {"issues": []},
            "addonArn": self._arn("addon", cluster.name, name, str(uuid.uuid4())),
            "createdAt": now(),
            "modifiedAt": now(),
            "serviceAccountRoleArn": self._get_param("serviceAccountRoleArn"),
            "configurationValues": self._get_param("configurationValues"),
            "namespaceConfig": {"namespace": "kube-system"},
            "podIdentityAssociations": [],
            "tags": self._get_param("tags") or {},
        }
        cluster.kept.addons[name] = addon
        return ActionResult({"addon": addon})

    def _addon(self) -> tuple[Any, dict[str, Any]]:
        cluster = self._cluster()
        name = self._get_param("addonName")
        if name not in cluster.kept.addons:
            raise not_found(f"No addon: {name} found in cluster: {cluster.name}")
        return cluster, cluster.kept.addons[name]

    def describe_addon(self) -> ActionResult:
        return ActionResult({"addon": self._addon()[1]})

    def delete_addon(self) -> ActionResult:
        cluster, addon = self._addon()
        return ActionResult({"addon": {**cluster.kept.addons.pop(addon["addonName"]), "status": "DELETING"}})

    def list_addons(self) -> ActionResult:
        return ActionResult({"addons": sorted(self._cluster().kept.addons)})
