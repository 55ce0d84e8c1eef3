"""Add-ons of a cluster."""

import uuid
from typing import Any

from moto.core.responses import ActionResult
from moto.eks.exceptions import InvalidParameterException, ResourceInUseException

from moto_server.base import KUBERNETES_VERSIONS, Base, not_found, now

# Offered versions, the newest first. Other versions are accepted without a check.
ADDONS = {
    "aws-ebs-csi-driver": ["v1.51.0-eksbuild.1"],
    "coredns": ["v1.12.4-eksbuild.1", "v1.12.3-eksbuild.1"],
    "eks-node-monitoring-agent": ["v1.4.1-eksbuild.1"],
    "eks-pod-identity-agent": ["v1.3.9-eksbuild.3"],
    "kube-proxy": ["v1.34.0-eksbuild.4"],
    "metrics-server": ["v0.8.0-eksbuild.2"],
    "vpc-cni": ["v1.20.4-eksbuild.2"],
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
            "addonVersion": self._get_param("addonVersion") or ADDONS[name][0],
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

    def update_addon(self) -> ActionResult:
        _, addon = self._addon()
        changed = {}
        for parameter in ("addonVersion", "serviceAccountRoleArn", "configurationValues"):
            given = self._get_param(parameter)
            if given is not None:
                addon[parameter] = changed[parameter] = given
        addon["modifiedAt"] = now()
        return self._update("AddonUpdate", changed)

    def delete_addon(self) -> ActionResult:
        cluster, addon = self._addon()
        return ActionResult({"addon": {**cluster.kept.addons.pop(addon["addonName"]), "status": "DELETING"}})

    def list_addons(self) -> ActionResult:
        return ActionResult({"addons": sorted(self._cluster().kept.addons)})

    def describe_addon_versions(self) -> ActionResult:
        wanted = self._get_param("addonName")
        kubernetes = self._get_param("kubernetesVersion")
        clusters = [kubernetes] if kubernetes else KUBERNETES_VERSIONS

        def offered(versions: list[str]) -> list[dict[str, Any]]:
            return [
                {
                    "addonVersion": version,
                    "architecture": ["amd64", "arm64"],
                    "computeTypes": ["ec2", "auto"],
                    "compatibilities": [
                        {
                            "clusterVersion": cluster,
                            "platformVersions": ["*"],
                            "defaultVersion": version == versions[-1],
                        }
                        for cluster in clusters
                    ],
                }
                for version in versions
            ]

        found = [
            {"addonName": name, "publisher": "eks", "owner": "aws", "addonVersions": offered(versions)}
            for name, versions in ADDONS.items()
            if wanted in (None, name)
        ]
        return ActionResult({"addons": found})
