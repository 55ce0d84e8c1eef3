"""Managed node groups: update configuration, versions, launch templates."""

from typing import Any

from moto.core.responses import ActionResult
from moto.eks.exceptions import InvalidParameterException

from moto_server.base import Base, now


def check_scaling(config: dict[str, int]) -> None:
    """Like AWS, reject a desired size outside of the bounds."""
    least, most, desired = (config.get(key) for key in ("minSize", "maxSize", "desiredSize"))
    if least is None or most is None or desired is None:
        return
    if least > desired:
        raise InvalidParameterException(
            message=f"Minimum capacity {least} can't be greater than desired size {desired}"
        )
    if desired > most:
        raise InvalidParameterException(message=f"desired capacity {desired} can't be greater than max size {most}")


class NodeGroups(Base):
    def create_nodegroup(self) -> Any:
        check_scaling(self._get_param("scalingConfig") or {})
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

    def update_nodegroup_config(self) -> Any:
        name = self._get_param("nodegroupName")
        group = self.eks_backend.describe_nodegroup(cluster_name=self._cluster().name, nodegroup_name=name)
        check_scaling({**group.scaling_config, **(self._get_param("scalingConfig") or {})})
        repair = self._get_param("nodeRepairConfig")
        if repair is not None:
            group.node_repair_config = repair
        return super().update_nodegroup_config()

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
        return self._update("VersionUpdate", changed)
