import pulumi
from pulumi_triton_serving import TritonServer

faces = TritonServer(
    "faces",
    model_repository="s3://models-bucket/faces",
    region="eu-west-1",
    credentials={"role_arn": "arn:aws:iam::111122223333:role/faces"},
    replicas=2,
    resources={"cpu": 4, "memory_gi_b": 16},
    client_namespaces=["web"],
)

pulumi.export("url", faces.service_url)
