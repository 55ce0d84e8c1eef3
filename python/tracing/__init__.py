"""Makes the artifacts of the model repository and proves that they compute what PyTorch computes.

Each model that is made here has a `trace.py` in its folder, which defines

    def export(context: TraceContext) -> Export: ...

`python -m tracing` (in scripts/) finds these files, loads each by its path and calls `export` with
torch's generators seeded with `context.seed`. `export` builds the eager module and says how to check it;
it writes nothing itself. The runner then

    trace   torch.jit.trace or torch.jit.script (model.pt), or the export's own `save` (model.onnx), to a scratch file;
    check   loads that file again and compares it with the eager module on `fresh_inputs`;
    save    renames it to <model>/<version>/model.pt|model.onnx and writes <artifact>.trace.json beside it.

A `trace.py` for TorchScript:

    from tracing import TorchScriptExport, TraceContext, Weights

    def export(context: TraceContext) -> TorchScriptExport:
        dims = context.input_dims("input__0")            # as in model.yaml, e.g. [3, 224, 224]
        model = build().eval()                           # context.weights is --weights MODEL=VALUE, or None
        return TorchScriptExport(
            eager=model,
            example_inputs=(torch.rand(1, *dims),),      # None: script the whole module instead of tracing it
            fresh_inputs=[(torch.rand(n, *dims),) for n in (1, 8)],  # the smallest and the largest batch, other lengths
            tolerance=1e-4,                              # largest absolute difference allowed, over all outputs
            weights=Weights.random(context.seed),        # or Weights("pretrained", "ResNet-50", source=...)
        )

and for ONNX:

    return OnnxExport(eager=model, save=write, fresh_inputs=..., tolerance=..., weights=...)

where `write(path: Path) -> None` writes an ONNX file, inputs and outputs in the eager module's order. Files that it
writes beside it, such as weights in files of their own, are published with it.

Rules: a module takes tensors and returns a tensor or a flat tuple of tensors. `extra_files` maps a path relative to the
model's folder (`labels.txt`; of one version `1/vocab.txt`) to its bytes. Something that a person has to put right is a
`TraceError(message, hint)`. Code that several models share lives in this package, which imports torch only when
something is to be traced, so that an up-to-date repository is seen in no time.
"""

from tracing.contract import Export, OnnxExport, TorchScriptExport, TraceContext, TraceError, Weights

__all__ = ["Export", "OnnxExport", "TorchScriptExport", "TraceContext", "TraceError", "Weights"]
