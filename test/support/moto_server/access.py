"""Access entries of a cluster, and the policies associated with them."""

import uuid
from typing import Any
from urllib.parse import unquote

from moto.core.responses import ActionResult, EmptyResult
from moto.eks.exceptions import InvalidParameterException, ResourceInUseException

from moto_server.base import Base, not_found, now

POLICIES = [
    "AmazonEKSAdminPolicy",
    "AmazonEKSAdminViewPolicy",
    "AmazonEKSAutoNodePolicy",
    "AmazonEKSClusterAdminPolicy",
    "AmazonEKSEditPolicy",
    "AmazonEKSViewPolicy",
]


class AccessEntries(Base):
    def create_access_entry(self) -> ActionResult:
        cluster = self._cluster()
        if getattr(cluster, "access_config", {}).get("authenticationMode") == "CONFIG_MAP":
            raise InvalidParameterException(
                message="The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] "
                "to perform this operation."
            )
        for group in self._get_param("kubernetesGroups") or []:
            # https://github.com/terraform-aws-modules/terraform-aws-eks/issues/2915 (2026-11-28)
            if group.startswith("system:"):
                raise InvalidParameterException(
                    message=f"The kubernetes group name {group} is invalid, it cannot start with system:"
                )
        principal = self._get_param("principalArn")
        if principal in cluster.kept.entries:
            raise ResourceInUseException(message="The specified access entry resource is already in use.")
        kind = self._get_param("type") or "STANDARD"
        nodes = kind != "STANDARD"
        role = principal.rsplit("/", 1)[-1]
        entry = {
            "clusterName": cluster.name,
            "principalArn": principal,
            "kubernetesGroups": self._get_param("kubernetesGroups") or (["system:nodes"] if nodes else []),
            "accessEntryArn": self._arn(
                "access-entry", cluster.name, "role", self.current_account, role, str(uuid.uuid4())
            ),
            "createdAt": now(),
            "modifiedAt": now(),
            "tags": self._get_param("tags") or {},
            "username": self._get_param("username") or ("system:node:{{EC2PrivateDNSName}}" if nodes else principal),
            "type": kind,
            "policies": {},
        }
        cluster.kept.entries[principal] = entry
        return ActionResult({"accessEntry": entry})

    def _entry(self) -> tuple[Any, dict[str, Any]]:
        cluster = self._cluster()
        principal = unquote(self._get_param("principalArn"))
        if principal not in cluster.kept.entries:
            raise not_found("The specified principalArn could not be found.")
        return cluster, cluster.kept.entries[principal]

    def describe_access_entry(self) -> ActionResult:
        return ActionResult({"accessEntry": self._entry()[1]})

    def delete_access_entry(self) -> EmptyResult:
        cluster, entry = self._entry()
        del cluster.kept.entries[entry["principalArn"]]
        return EmptyResult()

    def associate_access_policy(self) -> ActionResult:
        cluster, entry = self._entry()
        policy = self._get_param("policyArn")
        if policy.rsplit("/", 1)[-1] not in POLICIES:
            raise InvalidParameterException(message=f"The specified policyArn is invalid: {policy}")
        associated = {
            "policyArn": policy,
            "accessScope": self._get_param("accessScope"),
            "associatedAt": now(),
            "modifiedAt": now(),
        }
        entry["policies"][policy] = associated
        names = {"clusterName": cluster.name, "principalArn": entry["principalArn"]}
        return ActionResult({**names, "associatedAccessPolicy": associated})

    def disassociate_access_policy(self) -> EmptyResult:
        _, entry = self._entry()
        policy = unquote(self._get_param("policyArn"))
        if policy not in entry["policies"]:
            raise not_found(f"No association of {policy}")
        del entry["policies"][policy]
        return EmptyResult()

    def list_associated_access_policies(self) -> ActionResult:
        cluster, entry = self._entry()
        names = {"clusterName": cluster.name, "principalArn": entry["principalArn"]}
        return ActionResult({**names, "associatedAccessPolicies": list(entry["policies"].values())})
