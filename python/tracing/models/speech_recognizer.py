"""Wav2Vec2 with a CTC head, and its ONNX file."""

from __future__ import annotations

from pathlib import Path

import torch
from onnx_ir.passes.common import ClearMetadataAndDocStringPass
from torch import Tensor, nn
from torch.export import Dim
from transformers import Wav2Vec2ForCTC

SAMPLE_RATE_HZ = 16_000

# Fixed, so that a newer PyTorch does not write an opset that the server cannot read. ONNX Runtime reads 20 since 1.17.
OPSET = 20

# The vocabulary of wav2vec2-base-960h: token -> index in the logits. `<pad>` is the CTC blank, `|` the space.
LETTERS = {
    token: place for place, token in enumerate(("<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZ"))
}


class SpeechRecognizer(nn.Module):
    """Computes logits of letters from sound. The greedy CTC text is their argmax without repeats and blanks (0)."""

    def __init__(self, network: Wav2Vec2ForCTC) -> None:
        super().__init__()
        self.network = network

    def forward(self, input_values: Tensor) -> Tensor:
        """FP32 [batch, samples], 16 kHz, mean 0 and deviation 1 -> FP32 [batch, frames, letters]."""
        logits: Tensor = self.network(input_values).logits
        return logits


def shortest_sound(network: Wav2Vec2ForCTC, frames: int = 1) -> int:
    """Return the number of samples for `frames`: for one, the receptive field of the convolutions, usually 400."""
    samples = frames
    for kernel, stride in reversed(list(zip(network.config.conv_kernel, network.config.conv_stride, strict=True))):
        samples = (samples - 1) * stride + kernel
    return samples


def save_onnx(model: SpeechRecognizer, path: Path) -> None:
    """Write one self-contained ONNX file: input_values [batch, samples] -> logits [batch, frames, letters].

    The example is two sounds of one second; torch.export proves that batch and samples are free.
    """
    program = torch.onnx.export(
        model,
        (torch.randn(2, SAMPLE_RATE_HZ),),
        dynamo=True,
        opset_version=OPSET,
        input_names=["input_values"],
        output_names=["logits"],
        dynamic_shapes={"input_values": {0: Dim("batch"), 1: Dim("samples", min=shortest_sound(model.network))}},
        verbose=False,
    )
    if program is None:
        raise RuntimeError("torch.onnx.export returned no program")
    # The metadata contain stack traces with paths of this machine, which must not be published.
    ClearMetadataAndDocStringPass()(program.model)
    program.save(path, external_data=False)
