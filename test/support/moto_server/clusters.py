"""Clusters: Auto Mode, access configuration, updates and their status."""

import json
import os
import uuid
from datetime import datetime
from typing import Any

from moto.core.responses import ActionResult
from moto.eks.exceptions import InvalidParameterException

from moto_server.base import DONE, KUBERNETES_VERSIONS, Base, now

# Settings of a cluster that moto does not store: parameter -> (attribute, default)
SETTINGS: dict[str, tuple[str, Any]] = {
    "accessConfig": ("access_config", {"authenticationMode": "CONFIG_MAP"}),
    "upgradePolicy": ("upgrade_policy", {"supportType": "EXTENDED"}),
    "zonalShiftConfig": ("zonal_shift_config", None),
    "computeConfig": ("compute_config", {"enabled": False}),
    "storageConfig": ("storage_config", {"blockStorage": {"enabled": False}}),
    "deletionProtection": ("deletion_protection", False),
}
NETWORK = {"ipFamily": "ipv4", "serviceIpv4Cidr": "172.20.0.0/16", "elasticLoadBalancing": {"enabled": False}}

# Changes of Kubernetes versions that a test requests: see change_versions.
CHANGED_VERSIONS: dict[str, dict[str, Any] | None] = {}


class Clusters(Base):
    def create_cluster(self) -> Any:
        self._check_auto_mode()
        result = super().create_cluster()
        cluster = self._cluster(self._get_param("name"))
        for parameter, (attribute, default) in SETTINGS.items():
            given = self._get_param(parameter)
            value = {**default, **(given or {})} if isinstance(default, dict) else (default if given is None else given)
            if value is not None:
                setattr(cluster, attribute, value)
        cluster.kubernetes_network_config = {**NETWORK, **(cluster.kubernetes_network_config or {})}
        subnets = (cluster.resources_vpc_config or {}).get("subnetIds") or []
        cluster.resources_vpc_config = {
            "endpointPublicAccess": True,
            "endpointPrivateAccess": False,
            "securityGroupIds": [],
            "publicAccessCidrs": ["0.0.0.0/0"],
            "clusterSecurityGroupId": "sg-" + uuid.uuid4().hex[:17],
            "vpcId": self._vpc_of(subnets[0]) if subnets else "",
            **(cluster.resources_vpc_config or {}),
        }
        # In moto all clusters have the same issuer, so the OpenID Connect provider of a second one would already exist.
        issuer = f"https://oidc.eks.{self.region}.amazonaws.com/id/{uuid.uuid4().hex.upper()}"
        cluster.identity = {"oidc": {"issuer": issuer}}
        # Use a real Kubernetes API if there is one.
        if "KUBERNETES_ENDPOINT" in os.environ:
            cluster.endpoint = os.environ["KUBERNETES_ENDPOINT"]
            cluster.certificate_authority = {"data": os.environ["KUBERNETES_CERTIFICATE"]}
        return result

    def _check_auto_mode(self) -> None:
        """Like AWS, require all three parts of Auto Mode or none, and no self-managed add-ons with Auto Mode."""
        compute = self._get_param("computeConfig") or {}
        storage = self._get_param("storageConfig") or {}
        network = self._get_param("kubernetesNetworkConfig") or {}
        parts = {
            bool(compute.get("enabled")),
            bool((storage.get("blockStorage") or {}).get("enabled")),
            bool((network.get("elasticLoadBalancing") or {}).get("enabled")),
        }
        if len(parts) > 1:
            raise InvalidParameterException(
                message="For EKS Auto Mode, please ensure that all required configs, including computeConfig, "
                "kubernetesNetworkConfig, and blockStorage are all either fully enabled or fully disabled."
            )
        if True in parts and self._get_param("bootstrapSelfManagedAddons") is not False:
            raise InvalidParameterException(message="EKS Auto Mode needs bootstrapSelfManagedAddons to be false")
        if compute.get("nodePools") and not compute.get("nodeRoleArn"):
            raise InvalidParameterException(message="nodeRoleArn is required when nodePools are given")

    def _vpc_of(self, subnet: str) -> str:
        from moto.ec2.models import ec2_backends  # noqa: PLC0415  loaded with the first cluster

        found = ec2_backends[self.current_account][self.region].describe_subnets(subnet_ids=[subnet])
        return str(found[0].vpc_id) if found else ""

    def delete_cluster(self) -> Any:
        if getattr(self._cluster(), "deletion_protection", False):
            raise InvalidParameterException(message="The cluster is protected from deletion")
        return super().delete_cluster()

    def update_cluster_config(self) -> ActionResult:
        cluster = self._cluster()
        changed = {}
        merged = {"resourcesVpcConfig": "resources_vpc_config", "kubernetesNetworkConfig": "kubernetes_network_config"}
        settings = {parameter: attribute for parameter, (attribute, _) in SETTINGS.items()}
        for parameter, attribute in {"logging": "logging", **merged, **settings}.items():
            given = self._get_param(parameter)
            if given is None:
                continue
            old = getattr(cluster, attribute, None)
            merge = parameter != "logging" and isinstance(given, dict) and isinstance(old, dict)
            setattr(cluster, attribute, {**old, **given} if merge else given)
            changed[parameter] = given
        return self._update("ConfigUpdate", changed)

    def update_cluster_version(self) -> ActionResult:
        cluster = self._cluster()
        cluster.version = self._get_param("version")
        return self._update("VersionUpdate", {"Version": cluster.version})

    def describe_update(self) -> ActionResult:
        return ActionResult({"update": {**DONE, "id": self._get_param("updateId"), "createdAt": now()}})

    def describe_cluster_versions(self) -> ActionResult:
        wanted = self._get_param("clusterVersions") or KUBERNETES_VERSIONS
        versions = [
            {
                "clusterVersion": version,
                "clusterType": "eks",
                "defaultPlatformVersion": "eks.1",
                "defaultVersion": version == KUBERNETES_VERSIONS[0],
                "status": "STANDARD_SUPPORT",
                "versionStatus": "STANDARD_SUPPORT",
                "kubernetesPatchVersion": f"{version}.1",
                **CHANGED_VERSIONS.get(version, {}),
            }
            for version in KUBERNETES_VERSIONS
            if version in wanted and CHANGED_VERSIONS.get(version, {}) is not None
        ]
        return ActionResult({"clusterVersions": versions})


def change_versions(request: Any, _url: str, _headers: Any) -> Any:
    """
    Change what DescribeClusterVersions answers, by version; null removes a version.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_ClusterVersionInformation.html (2026-11-25)
    """
    CHANGED_VERSIONS.clear()
    for version, changes in json.loads(request.data).items():
        end = (changes or {}).get("endOfStandardSupportDate")
        date = {} if end is None else {"endOfStandardSupportDate": datetime.fromisoformat(end)}
        CHANGED_VERSIONS[version] = None if changes is None else {**changes, **date}
    return 200, {}, "{}"
