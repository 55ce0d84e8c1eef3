"""Managed node groups: update configuration, versions, launch templates."""

from typing import Any

from moto.core.responses import ActionResult

from moto_server.base import Base, now


class NodeGroups(Base):
    def create_nodegroup(self) -> Any:
        result = super().create_nodegroup()
        cluster = self._cluster()
        group = cluster.nodegroups[self._get_param("nodegroupName")]
        group.remote_access = self._get_param("remoteAccess")
        if not group.remote_access:
            group.resources.pop("remoteAccessSecurityGroup", None)
        group.update_config = self._get_param("updateConfig") or {"maxUnavailable": 1}
        group.node_repair_config = self._get_param("nodeRepairConfig")
        if self._get_param("version") is None:
            group.version = cluster.version
        if self._get_param("releaseVersion") is None:
            group.release_version = f"{group.version}.1-20260101"
        if group.launch_template:
            group.disk_size = None
            if self._get_param("instanceTypes") is None:
                group.instance_types = []
        return result

    def update_nodegroup_version(self) -> ActionResult:
        cluster = self._cluster()
        name = self._get_param("nodegroupName")
        group = self.eks_backend.describe_nodegroup(cluster_name=cluster.name, nodegroup_name=name)
        changed = {}
        template = self._get_param("launchTemplate")
        if template:
            group.launch_template = {**(group.launch_template or {}), **template}
            changed["LaunchTemplateVersion"] = template.get("version")
        for parameter, attribute in (("version", "version"), ("releaseVersion", "release_version")):
            given = self._get_param(parameter)
            if given:
                setattr(group, attribute, given)
                changed[attribute] = given
        group.modified_at = now()
        return self._update(cluster, "VersionUpdate", changed)
