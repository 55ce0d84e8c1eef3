"""Fixes calls of S3, IAM and EC2 that moto answers differently from AWS."""

import json
from types import SimpleNamespace
from typing import Any

import xmltodict


def install() -> None:
    keep_tags_of_new_buckets()
    tell_of_events_on_eventbridge()
    report_versioning_in_the_form_of_s3()
    empty_buckets_with_versions()
    heed_conditions_of_denials()
    read_policies_for_everybody()
    keep_tags_of_launch_templates_apart()
    report_zonal_nat_gateways()
    deny_access_in_the_form_of_each_service()


def keep_tags_of_new_buckets() -> None:
    """moto drops the tags of a new bucket, which would cause a diff on the second `up`."""
    from moto.s3.responses import S3Response  # noqa: PLC0415  moto reads its environment on import

    original = S3Response._bucket_response_put

    def put(self: Any, request: Any, bucket_name: str, querystring: Any, *args: Any, **kwargs: Any) -> Any:
        response = original(self, request, bucket_name, querystring, *args, **kwargs)
        if not querystring and self.body:
            sent = xmltodict.parse(self.body).get("CreateBucketConfiguration") or {}
            tags = (sent.get("Tags") or {}).get("Tag") or []
            tags = [tags] if isinstance(tags, dict) else tags
            if tags:
                self.backend.put_bucket_tagging(bucket_name, {tag["Key"]: tag.get("Value") or "" for tag in tags})
        return response

    S3Response._bucket_response_put = put


def tell_of_events_on_eventbridge() -> None:
    """moto stores a notification to EventBridge but does not return it, which would cause a diff on the second `up`."""
    from moto.s3.responses import S3Response  # noqa: PLC0415

    original = S3Response.get_bucket_notification

    def get(self: Any) -> Any:
        kept = self.backend.get_bucket_notification_configuration(self.bucket_name)
        serialized = self.serialized

        def with_eventbridge(answer: Any) -> Any:
            if kept and kept.event_bridge is not None:
                answer.result["EventBridgeConfiguration"] = {}
            return serialized(answer)

        self.serialized = with_eventbridge
        try:
            return original(self)
        finally:
            self.serialized = serialized

    S3Response.get_bucket_notification = get


def report_versioning_in_the_form_of_s3() -> None:
    """
    moto gives the answer another root element, which AWS's clients ignore.

    https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetBucketVersioning.html (2026-11-27): VersioningConfiguration
    """
    from moto.s3.responses import S3Response  # noqa: PLC0415

    def get(self: Any) -> Any:
        status = self.backend.get_bucket_versioning(self.bucket_name)
        element = f"<Status>{status}</Status>" if status else ""
        namespace = "http://s3.amazonaws.com/doc/2006-03-01/"
        return 200, {}, f'<VersioningConfiguration xmlns="{namespace}">{element}</VersioningConfiguration>'

    S3Response.get_bucket_versioning = get


def empty_buckets_with_versions() -> None:
    """moto answers 500 when the last version of an object is deleted, and `destroy` would retry for a long time."""
    from moto.s3.models import FakeDeleteMarker  # noqa: PLC0415

    if not hasattr(FakeDeleteMarker, "dispose"):
        FakeDeleteMarker.dispose = lambda _self, *_args, **_kwargs: None


def heed_conditions_of_denials() -> None:
    """moto ignores conditions, so "deny without TLS" would deny everything. Ignore denials with conditions instead."""
    from moto.iam.access_control import IAMPolicyStatement, PermissionResult  # noqa: PLC0415

    original = IAMPolicyStatement.is_action_permitted

    def permitted(self: Any, *args: Any, **kwargs: Any) -> Any:
        statement = self._statement
        if statement.get("Effect") == "Deny" and statement.get("Condition"):
            return PermissionResult.NEUTRAL
        return original(self, *args, **kwargs)

    IAMPolicyStatement.is_action_permitted = permitted


def read_policies_for_everybody() -> None:
    """moto fails (500) on a policy with the principal "*" when it checks whether access logs may be written."""
    from moto.s3.models import FakeBucket  # noqa: PLC0415

    original = FakeBucket._log_permissions_enabled_policy

    def enabled(target_bucket: Any, target_prefix: str | None) -> bool:
        policy = json.loads(target_bucket.policy.decode()) if target_bucket.policy else {"Statement": []}
        statements = [one for one in policy["Statement"] if isinstance(one.get("Principal"), dict)]
        named = json.dumps({**policy, "Statement": statements}).encode()
        bucket = SimpleNamespace(policy=named, partition=target_bucket.partition, name=target_bucket.name)
        return bool(original(bucket, target_prefix))

    FakeBucket._log_permissions_enabled_policy = staticmethod(enabled)


def keep_tags_of_launch_templates_apart() -> None:
    """moto copies the tags of a launch template to its instances, which would cause a diff on the second `up`."""
    from moto.ec2.models.launch_templates import LaunchTemplateBackend  # noqa: PLC0415

    original = LaunchTemplateBackend.create_launch_template

    def create(self: Any, name: str, description: str, template_data: Any, tag_spec: Any) -> Any:
        data = dict(template_data)
        tags = [spec for spec in data.pop("TagSpecifications", []) if spec.get("ResourceType") != "launch-template"]
        if tags:
            data["TagSpecifications"] = tags
        return original(self, name, description, data, tag_spec)

    LaunchTemplateBackend.create_launch_template = create


def report_zonal_nat_gateways() -> None:
    """moto omits the availability mode, without which the provider reads neither subnet nor address of a gateway."""
    from moto.ec2.models.nat_gateways import NatGateway  # noqa: PLC0415

    NatGateway.availability_mode = "zonal"


def deny_access_in_the_form_of_each_service() -> None:
    """
    moto denies access in XML to clients that expect JSON, and by IAM's name of the error to those of EC2.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html (2026-11-25): UnauthorizedOperation
    https://docs.aws.amazon.com/eks/latest/APIReference/CommonErrors.html (2026-11-25): AccessDeniedException
    """
    from moto.core.exceptions import AccessDeniedError, JsonRESTError, _RESTError  # noqa: PLC0415
    from moto.iam.access_control import IAMRequest  # noqa: PLC0415

    forms = {
        "ec2": (_RESTError, "UnauthorizedOperation"),
        "ecr": (JsonRESTError, "AccessDeniedException"),
        "eks": (JsonRESTError, "AccessDeniedException"),
        "kms": (JsonRESTError, "AccessDeniedException"),
        "logs": (JsonRESTError, "AccessDeniedException"),
        "servicequotas": (JsonRESTError, "AccessDeniedException"),
    }

    def deny(self: Any) -> None:
        denied = AccessDeniedError(user_arn=self._access_key.arn, action=self._action)
        if self._service not in forms:
            raise denied
        form, name = forms[self._service]
        error = form(name, denied.message)
        error.code = denied.code
        raise error

    IAMRequest._raise_access_denied = deny
