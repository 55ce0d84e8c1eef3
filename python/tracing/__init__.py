"""Makes the artifacts of the model repository and verifies that they compute the same as PyTorch.

`python -m tracing` (in python/) loads the `trace.py` of each model by its path, and calls `export(context)` after it
has seeded torch's generators with `context.seed`. `export` builds the eager module and specifies how to check it
(docs/tracing.md has an example); it writes no files. The runner then has these steps:

    trace   write a scratch file with torch.export (model.pt2), torch.jit (model.pt) or `save` (model.onnx);
    check   load that file again and compare it with the eager module on `fresh_inputs`;
    save    rename it to <model>/<version>/model.pt2|model.pt|model.onnx and write <artifact>.trace.json beside it.

A module takes tensors and returns a tensor or a flat tuple of tensors. Raise `TraceError(message, hint)` for problems
that the user has to fix. Code that several models share belongs in this package, which imports torch only to trace, so
that an up-to-date repository is recognised quickly.
"""

from tracing.contract import Export, OnnxExport, ProgramExport, TorchScriptExport, TraceContext, TraceError, Weights

__all__ = ["Export", "OnnxExport", "ProgramExport", "TorchScriptExport", "TraceContext", "TraceError", "Weights"]
