"""Rejects artifacts whose answers depend on random numbers or on earlier calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn

from tracing.check import Tensors
from tracing.contract import TraceError
from tracing.rows import make_probes
from tracing.served import Served, ask, require_stateless


@pytest.fixture(autouse=True)
def _here(served_here: None) -> None:
    """The artifacts run in this process."""


def served(tmp_path: Path, module: Any, inputs: Sequence[Tensors], probes: Sequence[Tensors] = ()) -> Served:
    artifact = tmp_path / "model.pt"
    torch.jit.save(module, str(artifact))
    return ask(artifact, "model.pt", inputs, probes, tmp_path, repeat=True)


def check(tmp_path: Path, module: Any, inputs: Sequence[Tensors] = (), tolerance: float = 1e-5) -> None:
    inputs = inputs or [(torch.rand(batch, 3),) for batch in (1, 2)]
    require_stateless(served(tmp_path, module, inputs), "model.pt", inputs, tolerance)


class Buffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.ones(3))


class Sign(Buffer):
    def forward(self, x: Tensor) -> Tensor:
        return x * self.state.neg_()


class Mean(Buffer):
    """Subtracts a mean that moves so slowly that two answers are equal within the tolerance."""

    def forward(self, x: Tensor) -> Tensor:
        return x - self.state.lerp_(x.mean(0), 1e-6)


class Counter(nn.Module):
    """Counts, without an effect on the first thousand answers."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x if self.calls < 1000 else -x


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Mean()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


class Highest(Buffer):
    """Remembers the highest number of all requests; only unusual ones change the answers."""

    def forward(self, x: Tensor) -> Tensor:
        self.state.copy_(torch.maximum(self.state, x.max()))
        return x + (self.state > 1e6).float()


class Noise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x) * 1e-9


class Held(nn.Module):
    """Keeps a tensor in a dict, which becomes a constant of the trace."""

    def __init__(self, change: str) -> None:
        super().__init__()
        self.change = change
        self.held = {"state": torch.zeros(3)}

    def forward(self, x: Tensor) -> Tensor:
        state = self.held["state"]
        if self.change == "count":
            return x * (state.add_(1) < 1000)
        # Fills gaps with the values of the last client.
        return torch.where(x.isnan(), state.copy_(torch.where(x[0].isnan(), state, x[0])), x)


IDS = [(torch.randint(0, 1000, (1, length)),) for length in (1, 9, 3)]
ANSWERS = (
    r"^the saved model.pt returns another answer when it is called again .* of shape \[\d, 3\]: output 0 differs by .*"
)


@pytest.mark.parametrize(
    ("module", "inputs", "error"),
    [
        (Sign(), (), ANSWERS),
        (Sign(), [(torch.rand(1, 3),)], ANSWERS),
        (Mean(), (), "^calls of the saved model.pt change state, so later answers may differ$"),
        (Nested(), (), "change inner.state, so"),
        (Counter(), (), "change calls, so"),
        (Noise(), (), "^the saved model.pt draws random numbers, so its answers differ from call to call$"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_state(tmp_path: Path, module: nn.Module, inputs: Sequence[Tensors], error: str) -> None:
    with pytest.raises(TraceError, match=error) as raised:
        check(tmp_path, torch.jit.script(module.eval()), inputs)
    assert "An answer must depend on its inputs alone" in (raised.value.hint or "")


@torch.jit.script
class Coder:
    """Like BoxCoder of torchvision's detectors."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def encode(self, x: Tensor) -> Tensor:
        return x * self.factor

    def count(self) -> None:
        self.factor += 1


class Coded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.coder = Coder(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.coder.encode(x)


class Counted(Coded):
    def forward(self, x: Tensor) -> Tensor:
        y = self.coder.encode(x)
        self.coder.count()
        return y


@pytest.mark.parametrize(("module", "written"), [(Coded(), []), (Counted(), ["coder"])], ids=["coded", "counted"])
def test_state_of_an_object_that_python_cannot_read(tmp_path: Path, module: nn.Module, written: list[str]) -> None:
    inputs = [(torch.rand(batch, 3),) for batch in (1, 2)]
    answer = served(tmp_path, torch.jit.script(module.eval()), inputs)
    assert answer.written == written
    assert torch.equal(answer.outputs[0][0], inputs[0][0] * 2)


def test_state_that_only_an_unusual_request_leaves(tmp_path: Path) -> None:
    inputs = [(torch.rand(batch, 3),) for batch in (1, 2)]
    answer = served(tmp_path, torch.jit.script(Highest().eval()), inputs, [one.inputs for one in make_probes(inputs)])
    with pytest.raises(TraceError, match=ANSWERS):
        require_stateless(answer, "model.pt", inputs, 1e-5)


CONSTANT = r"change constant \d+ \(a tensor of shape \[3\] in a dict, list or global\), so"


@pytest.mark.parametrize(
    ("module", "error"), [(Mean(), "change state, so"), (Held("count"), CONSTANT), (Held("leak"), CONSTANT)]
)
def test_state_of_a_trace(tmp_path: Path, module: nn.Module, error: str) -> None:
    traced = torch.jit.trace(module.eval(), (torch.rand(2, 3),), check_trace=False)  # type: ignore[no-untyped-call]
    for artifact in (traced, torch.jit.freeze(traced)):
        with pytest.raises(TraceError, match=error):
            check(tmp_path, artifact)


class Cache(nn.Module):
    """Computes positions once for the longest input."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = torch.zeros(0)

    def forward(self, x: Tensor) -> Tensor:
        if len(self.positions) < x.shape[1]:
            self.positions = torch.arange(x.shape[1]).float()
        return x + self.positions[: x.shape[1]]


class Scratch(Buffer):
    """Uses a buffer for an intermediate result."""

    def forward(self, x: Tensor) -> Tensor:
        self.state.copy_(x.mean(0))
        return x - self.state


@pytest.mark.parametrize(("module", "kept"), [(Scratch(), ["state"]), (Cache(), [])], ids=["scratch", "cache"])
def test_data_of_the_last_request(tmp_path: Path, module: nn.Module, kept: list[str]) -> None:
    inputs = [(torch.rand(batch, 3),) for batch in (1, 2)]
    assert served(tmp_path, torch.jit.script(module.eval()), inputs).kept == kept


class Unused(nn.Module):
    """Draws a random number without using it, as layer drop of transformers."""

    def forward(self, x: Tensor) -> Tensor:
        torch.rand([])
        return x * 2


class InPlace(Buffer):
    """Changes its input and intermediate tensors, but not its buffer."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(2) + self.state.clone().add_(1)


class Nan(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x / 0 * 0, x.argmax(-1)


@pytest.mark.parametrize(
    ("module", "inputs"),
    [
        (Cache(), ()),
        (Cache(), IDS),
        (Scratch(), ()),
        (Unused(), ()),
        (InPlace(), ()),
        (Nan(), ()),
        (nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.LayerNorm(8)), ()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_state(tmp_path: Path, module: nn.Module, inputs: Sequence[Tensors]) -> None:
    check(tmp_path, torch.jit.script(module.eval().requires_grad_(False)), inputs)


class First(nn.Sequential):
    """The first output of a network."""

    def forward(self, x: Tensor) -> Tensor:
        y = self[0](x)
        return y if isinstance(y, Tensor) else y[0]


@pytest.mark.parametrize("network", [nn.LSTM(3, 4), nn.TransformerEncoderLayer(3, 1, 8)], ids=["lstm", "transformer"])
def test_no_state_of_a_trace(tmp_path: Path, network: nn.Module) -> None:
    module = First(network).eval().requires_grad_(False)
    check(tmp_path, torch.jit.trace(module, (torch.rand(2, 3),), check_trace=False))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("node", ["RandomUniformLike", "Identity"])
def test_onnx(tmp_path: Path, node: str) -> None:
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node(node, ["x"], ["y"])], "graph", tensors[:1], tensors[1:])
    artifact = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), artifact)
    inputs = [(torch.rand(batch, 3),) for batch in (1, 2)]
    result = ask(artifact, "model.onnx", inputs, [], tmp_path, repeat=True)
    if node == "Identity":
        require_stateless(result, artifact.name, inputs, 0)
        return
    with pytest.raises(TraceError, match=r"the saved model\.onnx returns another answer when it is called again"):
        require_stateless(result, artifact.name, inputs, 1e-5)
