"""Health of the targets of load balancers, which moto always reports as healthy."""

import json
from typing import Any

from moto.moto_api._internal import urls as moto_urls

# State and reason by the address of a target.
STATES: dict[str, list[str]] = {}


def change_states(request: Any, _url: str, _headers: Any) -> Any:
    """`POST /moto-api/target-states` with `{"10.0.0.1": ["unhealthy", "Target.Timeout"]}`; others are healthy again."""
    STATES.clear()
    STATES.update(json.loads(request.data))
    return 200, {}, "{}"


def install() -> None:
    from moto.elbv2.models import FakeTargetGroup  # noqa: PLC0415  moto reads its environment on import

    original = FakeTargetGroup.health_for

    def health_for(self: Any, target: Any, *args: Any) -> Any:
        health = original(self, target, *args)
        if target["Id"] in STATES:
            health.status, health.reason = STATES[target["Id"]]
        return health

    FakeTargetGroup.health_for = health_for
    moto_urls.url_paths["{0}/moto-api/target-states"] = change_states
