"""
Service Quotas of EC2, of which moto has none, and increases of quotas, which are granted at once.

https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/API_ServiceQuota.html (2026-11-25)
"""

import json
from typing import Any

# Defaults of a new account.
DEFAULTS = {
    "L-0263D0A3": ("EC2-VPC Elastic IPs", 5.0),
    "L-3819A6DF": ("All G and VT Spot Instance Requests", 0.0),
    "L-417A185B": ("Running On-Demand P instances", 0.0),
    "L-7212CCBC": ("All P4, P3 and P2 Spot Instance Requests", 0.0),
    "L-C4BD4855": ("All P5 Spot Instance Requests", 0.0),
    "L-DB2E81BA": ("Running On-Demand G and VT instances", 0.0),
}


def install() -> None:
    from moto.servicequotas.exceptions import NoSuchResource  # noqa: PLC0415  moto reads its environment on import
    from moto.servicequotas.models import ServiceQuotasBackend  # noqa: PLC0415
    from moto.servicequotas.responses import ServiceQuotasResponse  # noqa: PLC0415

    original = ServiceQuotasBackend.get_service_quota

    def default(backend: Any, service: str, code: str) -> dict[str, Any]:
        if service != "ec2":
            return dict(original(backend, service, code))
        if code not in DEFAULTS:
            raise NoSuchResource
        name, value = DEFAULTS[code]
        return {"ServiceCode": service, "QuotaCode": code, "QuotaName": name, "Value": value, "Adjustable": True}

    def applied(backend: Any, service: str, code: str) -> dict[str, Any]:
        granted = getattr(backend, "granted", {})
        if (service, code) in granted:
            return {**default(backend, service, code), "Value": granted[service, code]}
        if service == "ec2":
            # Like AWS, no applied value for a quota that was never changed.
            raise NoSuchResource
        return default(backend, service, code)

    def names(response: Any) -> tuple[str, str]:
        params = json.loads(response.body)
        return params["ServiceCode"], params["QuotaCode"]

    def get_service_quota(self: Any) -> str:
        return json.dumps({"Quota": applied(self.backend, *names(self))})

    def get_aws_default_service_quota(self: Any) -> str:
        return json.dumps({"Quota": default(self.backend, *names(self))})

    def request_service_quota_increase(self: Any) -> str:
        service, code = names(self)
        value = json.loads(self.body)["DesiredValue"]
        self.backend.granted = {**getattr(self.backend, "granted", {}), (service, code): value}
        requested = {"Id": "1", "ServiceCode": service, "QuotaCode": code, "DesiredValue": value, "Status": "APPROVED"}
        return json.dumps({"RequestedQuota": requested})

    ServiceQuotasResponse.get_service_quota = get_service_quota
    ServiceQuotasResponse.get_aws_default_service_quota = get_aws_default_service_quota
    ServiceQuotasResponse.request_service_quota_increase = request_service_quota_increase
