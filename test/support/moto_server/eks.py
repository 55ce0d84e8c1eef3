"""The EKS API: the modules of this folder override moto's implementation."""

from moto.eks import urls
from moto.moto_api._internal import urls as moto_urls

from moto_server.access import AccessEntries
from moto_server.addons import Addons
from moto_server.clusters import Clusters, change_versions
from moto_server.node_groups import NodeGroups


class Eks(Clusters, NodeGroups, Addons, AccessEntries):
    """The whole API."""


def install() -> None:
    """Route every path of EKS to `Eks`."""
    cluster = "{0}/clusters/(?P<name>[^/]+)"
    more = [
        f"{cluster}/updates/(?P<updateId>[^/]+)$",
        f"{cluster}/node-groups/(?P<nodegroupName>[^/]+)/update-version$",
        f"{cluster}/addons$",
        f"{cluster}/addons/(?P<addonName>[^/]+)$",
        f"{cluster}/access-entries$",
        f"{cluster}/access-entries/(?P<principalArn>.+)$",
        "{0}/cluster-versions$",
    ]
    handler = Eks().dispatch
    for path in (*urls.url_paths, *more):
        urls.url_paths[path] = handler
    moto_urls.url_paths["{0}/moto-api/kubernetes-versions"] = change_versions
