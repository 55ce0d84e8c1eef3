"""The EKS API: the modules of this folder override moto's implementation."""

from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.eks import urls
from moto.moto_api._internal import urls as moto_urls

from moto_server.access import AccessEntries
from moto_server.addons import Addons
from moto_server.base import not_found
from moto_server.clusters import Clusters, change_versions
from moto_server.node_groups import NodeGroups


class Eks(Clusters, NodeGroups, Addons, AccessEntries):
    """The whole API. Implements tags, which all kinds of resources have."""

    def _tags(self) -> Any:
        arn = self._extract_arn_from_path()
        for cluster in map(self._cluster, self.eks_backend.clusters):
            for thing in (cluster, *cluster.nodegroups.values()):
                if thing.arn == arn:
                    thing.tags = thing.tags or {}
                    return thing.tags
            for key, things in (("addonArn", cluster.kept.addons), ("accessEntryArn", cluster.kept.entries)):
                for kept in things.values():
                    if kept[key] == arn:
                        return kept["tags"]
        raise not_found(f"No resource found for {arn}")

    def tag_resource(self) -> EmptyResult:
        self._tags().update(self._get_param("tags"))
        return EmptyResult()

    def untag_resource(self) -> EmptyResult:
        keys = self._get_param("tagKeys")
        tags = self._tags()
        for key in keys if isinstance(keys, list) else [keys]:
            tags.pop(key, None)
        return EmptyResult()

    def list_tags_for_resource(self) -> ActionResult:
        return ActionResult({"tags": self._tags()})


def install() -> None:
    """Route every path of EKS to `Eks`."""
    cluster = "{0}/clusters/(?P<name>[^/]+)"
    more = [
        f"{cluster}/updates$",
        f"{cluster}/updates/(?P<updateId>[^/]+)$",
        f"{cluster}/encryption-config/associate$",
        f"{cluster}/node-groups/(?P<nodegroupName>[^/]+)/update-version$",
        f"{cluster}/addons$",
        f"{cluster}/addons/(?P<addonName>[^/]+)$",
        f"{cluster}/addons/(?P<addonName>[^/]+)/update$",
        f"{cluster}/access-entries$",
        f"{cluster}/access-entries/(?P<principalArn>.+)$",
        "{0}/addons/supported-versions$",
        "{0}/cluster-versions$",
    ]
    handler = Eks().dispatch
    for path in (*urls.url_paths, *more):
        urls.url_paths[path] = handler
    moto_urls.url_paths["{0}/moto-api/kubernetes-versions"] = change_versions
