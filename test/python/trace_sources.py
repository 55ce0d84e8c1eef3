"""Sources of `trace.py`, of models so small that a trace takes no time."""

SCALE = """
    import torch
    from torch import nn
    from tracing import TorchScriptExport, Weights

    class Scale(nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.factor = nn.Parameter(factor)

        def forward(self, x):
            return x * self.factor

    def export(context):
        print("noise of a library")
        return TorchScriptExport(
            eager=Scale(torch.rand(4)),
            example_inputs=(torch.rand(2, 4),),
            fresh_inputs=[(torch.rand(4, 4),), (torch.rand(1, 4),)],
            tolerance=0,
            weights=Weights.random(context.seed),
            extra_files={"labels.txt": b"one\\ntwo\\n"},
        )
"""

# The traced module divides by the batch size that it was traced with.
FROZEN = """
    import torch
    from torch import nn
    from tracing import TorchScriptExport, Weights

    class Frozen(nn.Module):
        def forward(self, x):
            return x / len(x.tolist())

    def export(context):
        return TorchScriptExport(
            eager=Frozen(),
            example_inputs=(torch.ones(1, 4),),
            fresh_inputs=[(torch.ones(2, 4),), (torch.zeros(1, 4),)],
            tolerance=0.1,
            weights=Weights.none(),
        )
"""

# Only a process that has imported this file knows the operator.
CUSTOM = SCALE.replace(
    "    class Scale",
    """    @torch.library.custom_op("mine::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    class Scale""",
).replace("x * self.factor", "torch.ops.mine.twice(x) * self.factor")

ONNX = """
    import onnx
    import torch
    from onnx import TensorProto, helper
    from torch import nn
    from tracing import OnnxExport, Weights

    class Twice(nn.Module):
        def forward(self, x):
            return x + x

    def save(path):
        tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x", "y")]
        graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "twice", tensors[:1], tensors[1:])
        opset = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)

    def export(context):
        return OnnxExport(
            eager=Twice(), save=save, fresh_inputs=[(torch.rand(5),)], tolerance=0, weights=Weights.none()
        )
"""
