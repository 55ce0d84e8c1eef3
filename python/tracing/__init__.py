"""Makes the artifacts of the model repository and verifies that they compute the same as PyTorch.

Each model that this package makes has a `trace.py` in its folder, which defines

    def export(context: TraceContext) -> Export: ...

`python -m tracing` (in python/) finds these files, loads each by its path and calls `export` after it has seeded
torch's generators with `context.seed`. `export` builds the eager module and specifies how to check it; it writes no
files. The runner then has these steps:

    trace   write a scratch file with torch.export (model.pt2), torch.jit (model.pt) or `save` (model.onnx);
    check   load that file again and compare it with the eager module on `fresh_inputs`;
    save    rename it to <model>/<version>/model.pt2|model.pt|model.onnx and write <artifact>.trace.json beside it.

A `trace.py` for PyTorch, for platform torch_aoti (model.pt2) and pytorch_libtorch (model.pt):

    from tracing import ProgramExport, TraceContext, Weights

    def export(context: TraceContext) -> ProgramExport:
        dims = context.input_dims(0)                     # as in model.yaml, e.g. [3, 224, 224]
        model = build().eval()                           # context.weights is --weights MODEL=VALUE, or None
        return ProgramExport(
            eager=model,
            example_inputs=(torch.rand(2, *dims),),      # sizes of 2 or more where model.yaml leaves them free
            fresh_inputs=[(torch.rand(n, *dims),) for n in (1, 8)],  # the smallest and the largest batch, other lengths
            tolerance=1e-4,                              # largest absolute difference allowed, over all outputs
            weights=Weights.random(context.seed),        # or Weights("pretrained", "ResNet-50", source=...)
        )

and for ONNX:

    return OnnxExport(eager=model, save=write, fresh_inputs=..., tolerance=..., weights=...)

where `write(path: Path) -> None` writes an ONNX file with inputs and outputs in the order of the eager module. Other
files that `write` creates beside the ONNX file, such as external weights, are published with it.

Rules: a module takes tensors and returns a tensor or a flat tuple of tensors. `extra_files` maps a path relative to the
model's folder (`labels.txt`, or `1/vocab.txt` for one version) to its bytes. Raise `TraceError(message, hint)` for
problems that the user has to fix. Code that several models share belongs in this package, which imports torch only to
trace, so that an up-to-date repository is recognised quickly.
"""

from tracing.contract import Export, OnnxExport, ProgramExport, TorchScriptExport, TraceContext, TraceError, Weights

__all__ = ["Export", "OnnxExport", "ProgramExport", "TorchScriptExport", "TraceContext", "TraceError", "Weights"]
