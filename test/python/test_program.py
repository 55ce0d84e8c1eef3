"""Programs of torch.export: what `npm run trace` makes and refuses, and the backend that serves them here."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from transformers import BertConfig, BertModel

from conftest import AddModel, Run
from fake_triton import FakeRequest, LoadBackend, arguments, tensor
from tracing.faces import Postprocess, Preprocess
from tracing.models.sentence_encoder import SentenceEncoder

TENSORS = """
    max_batch_size: 4
    input: [{ name: INPUT__0, data_type: TYPE_FP32, dims: [-1] }]
    output: [{ name: OUTPUT__0, data_type: TYPE_FP32, dims: [-1] }]
"""


def trace(forward: str, example: str = "torch.rand(2, 3)", init: str = "pass") -> str:
    """A trace.py whose module has this body of forward(x)."""
    return f"""
        import torch
        from torch import nn
        from tracing import ProgramExport, Weights

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                {init}

            def forward(self, x):
                {forward}

        def export(context):
            shapes = [(1, 2), (4, 5), (1, 1)]
            return ProgramExport(
                eager=Net(), example_inputs=({example},), fresh_inputs=[(torch.rand(*shape),) for shape in shapes],
                tolerance=0, weights=Weights.none(),
            )
        """


def digest(folder: Path, name: str = "model.pt2") -> str:
    return hashlib.sha256((folder / "1" / name).read_bytes()).hexdigest()


def test_one_trace_gives_a_program_or_torchscript_by_platform(tmp_path: Path, add_model: AddModel, run: Run) -> None:
    source = trace("return x * 2")
    folder = add_model("m", source, "torch_aoti", TENSORS)
    assert run()[0] == 0
    first = digest(folder)
    assert run("--force")[0] == 0
    assert digest(folder) == first
    with ZipFile(folder / "1" / "model.pt2") as archive:
        assert not any(str(tmp_path).encode() in archive.read(name) for name in archive.namelist())
    assert [path.name for path in sorted((folder / "golden" / "1").glob("*.json"))] == [
        "traced-0.json",
        "traced-1.json",
    ]
    # The platform of the same model changes: its former file, and the record of that, go.
    config = folder / "model.yaml"
    config.write_text(config.read_text().replace("torch_aoti", "pytorch_libtorch"))
    assert run()[0] == 0
    assert sorted(path.name for path in (folder / "1").iterdir()) == ["model.pt", "model.pt.trace.json"]


FIXED = "but the exported program has the fixed size"
IN_PROCESS = "the saved model.pt2 fails in a process of its own: AssertionError:"


@pytest.mark.parametrize(
    ("model", "error", "hint"),
    [
        (trace("return x + 0 * int(x.size(0))"), f"max_batch_size is 4, {FIXED} 2 in axis 0", "max_batch_size: 1"),
        (trace("return x + 0 * int(x.size(1))"), f"dims[0] of 'INPUT__0' is -1, {FIXED} 3 in axis 1", "3 there"),
        (trace("return x * 2", "torch.rand(1, 3)"), f"max_batch_size is 4, {FIXED} 1", "an example of 2 or more"),
        (
            trace("return x * 2 if x.size(1) > 2 else x * 3"),
            f"{IN_PROCESS} Guard failed: x.size()[1] >= 3",
            "torch.export kept the branch that the example took",
        ),
        (
            trace("return x * 2 if x.sum() > 0 else x"),
            "torch.export cannot export forward(): GuardOnDataDependentSymNode: ",
            "platform: pytorch_libtorch",
        ),
        (
            trace("return x * self.n.add_(1)", init="self.register_buffer('n', torch.ones(1))"),
            "returns another answer when it is called again",
            "",
        ),
        (trace("return self.f(x)", init="self.f = torch.jit.script(nn.ReLU())"), "f is scripted", "script_if_tracing"),
        (trace("return torch.max(x, 1, keepdim=True)"), "forward() returns a max, which Triton refuses", "tuple(...)"),
    ],
)
def test_refusals(add_model: AddModel, run: Run, model: str, error: str, hint: str) -> None:
    refused(add_model("m", model, "torch_aoti", TENSORS), run, error, hint)


@pytest.mark.parametrize(
    ("config", "error", "hint"),
    [
        (
            TENSORS.replace("INPUT", "input"),
            "model.yaml: input 'input__0' is not in model.pt2, which has ARGS[0], INPUT__0",
            "from INPUT__0",
        ),
        (
            TENSORS + "    sequence_batching: {}\n",
            "Triton serves no sequences and ragged batches with platform torch_aoti",
            "pytorch_libtorch",
        ),
    ],
)
def test_refused_configurations(add_model: AddModel, run: Run, config: str, error: str, hint: str) -> None:
    refused(add_model("m", trace("return x * 2"), "torch_aoti", config), run, error, hint)


def refused(folder: Path, run: Run, error: str, hint: str) -> None:
    status, events = run()
    failed = [event for event in events if event["event"] == "failed"]
    assert (status, len(failed)) == (1, 1)
    assert error in failed[0]["error"]
    assert hint in (failed[0]["hint"] or "")
    assert not (folder / "1" / "model.pt2").exists()


def test_a_limit_that_model_yaml_cannot_express_is_a_warning(add_model: AddModel, run: Run) -> None:
    add_model("m", trace("torch._check(x.size(1) <= 9); return x * 2"), "torch_aoti", TENSORS)
    status, events = run()
    assert status == 0
    [warning] = [event["text"] for event in events if event["event"] == "warning"]
    assert warning.startswith(
        "axis 1 of input 0: the program refuses sizes above 9, and perhaps others; model.yaml: dims[0] of 'INPUT__0'"
    )


def texts(batch: int, tokens: int) -> tuple[Tensor, Tensor]:
    return torch.randint(0, 30, (batch, tokens)), torch.randint(0, 2, (batch, tokens))


def encoder() -> nn.Module:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    network = BertModel(BertConfig(vocab_size=30, max_position_embeddings=8, **sizes), add_pooling_layer=False)
    network.set_attn_implementation("sdpa")
    return SentenceEncoder(network).eval()


def photo(height: int, width: int) -> Tensor:
    return torch.randint(0, 256, (height, width, 3), dtype=torch.uint8)


@pytest.mark.parametrize(
    ("module", "free", "cases"),
    [
        (encoder(), [{0, 1}, {0, 1}], [texts(2, 4), texts(1, 1), texts(3, 1), texts(2, 8), texts(2, 12)]),
        (Preprocess(8), [{0, 1}], [(photo(9, 5),), (photo(8, 8),), (photo(1, 1),), (photo(3, 30),)]),
        (
            Postprocess(),
            [{2, 3}, {0, 1}],
            [
                (torch.randn(1, 3, *size), photo(*to))
                for size, to in (((9, 5), (3, 4)), ((8, 8), (8, 8)), ((1, 1), (2, 1)))
            ],
        ),
    ],
    ids=["bert", "pre_gfpgan", "post_gfpgan"],
)
@torch.no_grad()
def test_modules_of_the_models_that_ship_are_programs_of_every_size(
    module: nn.Module, free: list[set[int]], cases: list[tuple[Tensor, ...]]
) -> None:
    axes = tuple(dict.fromkeys(axes, Dim.AUTO) for axes in free)
    program = torch.export.export(module, cases[0], dynamic_shapes=axes, strict=False).module()
    for case in cases:
        torch.testing.assert_close(program(*case), module(*case), rtol=0, atol=1e-6, equal_nan=True)


def test_data_of_a_client_that_a_part_keeps_is_found(add_model: AddModel, run: Run) -> None:
    part = "self.part = nn.Identity(); self.part.seen = torch.zeros(1)"
    forward = "r = torch.where(x[:, :1] == 77, self.part.seen, x); self.part.seen.copy_(x.sum().view(1)); return r"
    add_model("m", trace(forward, init=part), "torch_aoti", TENSORS)
    _, events = run()
    assert any("data of the last request" in event.get("text", event.get("error", "")) for event in events)


class Named(nn.Module):
    def forward(self, x: Tensor, more: dict[str, Tensor], *, mask: Tensor) -> dict[str, Tensor]:
        return {"sum": x + more["a"], "masked": x * mask}


class TestBackend:
    @pytest.fixture
    def load(self, load_backend: LoadBackend, tmp_path: Path) -> Callable[..., Any]:
        def load(inputs: list[str], outputs: list[str], write: Callable[[Path], object]) -> Any:
            (tmp_path / "1").mkdir()
            write(tmp_path / "1" / "model.pt2")
            model = load_backend("program").ProgramBackend()
            tensors = {"input": [tensor(name) for name in inputs], "output": [tensor(name) for name in outputs]}
            model.initialize(arguments(tmp_path, max_batch_size=4, **tensors))
            return model

        return load

    @staticmethod
    def write(path: Path) -> None:
        x, a, mask = torch.rand(3, 2, 3)
        free = {0: Dim.AUTO}
        program = torch.export.export(
            Named(), (x, {"a": a}), {"mask": mask}, dynamic_shapes={"x": free, "more": {"a": free}, "mask": free}
        )
        torch.export.save(program, path)

    @pytest.mark.parametrize(
        ("inputs", "outputs"),
        [
            (["ARGS[0]", "ARGS[1][a]", "KWARGS[mask]"], ["RESULT[sum]", "RESULT[masked]"]),
            (["INPUT__0", "INPUT__1", "INPUT__2"], ["OUTPUT__0", "OUTPUT__1"]),
        ],
    )
    def test_tensors_have_the_names_or_numbers_of_triton(
        self, load: Callable[..., Any], inputs: list[str], outputs: list[str]
    ) -> None:
        model = load(inputs, outputs, self.write)
        x = torch.rand(3, 3)
        values = dict(zip(inputs, (x, x + 1, torch.zeros_like(x)), strict=True))
        [response] = model.execute([FakeRequest(values, set(outputs))])
        assert response.error is None
        torch.testing.assert_close(response.outputs[outputs[0]], 2 * x + 1)
        torch.testing.assert_close(response.outputs[outputs[1]], torch.zeros(3, 3))

    @pytest.mark.parametrize(
        ("inputs", "outputs", "write", "refusal"),
        [
            (
                ["x", "INPUT__1", "INPUT__2"],
                ["OUTPUT__0"],
                None,
                "the program has no input 'x'; it has ARGS[0], ARGS[1][a]",
            ),
            (["INPUT__0"], ["OUTPUT__0"], None, "the program takes 3 tensors, but the configuration has 1 inputs"),
            (["INPUT__0"], ["OUTPUT__0"], lambda path: path.write_bytes(b"text"), "the file is no archive"),
            (["INPUT__0"], ["OUTPUT__0"], lambda path: torch.save({}, path), "the file has no program of torch.export"),
        ],
    )
    def test_refusals(
        self,
        load: Callable[..., Any],
        inputs: list[str],
        outputs: list[str],
        write: Callable[[Path], object] | None,
        refusal: str,
    ) -> None:
        with pytest.raises(Exception, match="cannot load") as error:
            load(inputs, outputs, write or self.write)
        assert refusal in str(error.value)

    @pytest.mark.slow
    def test_compiled_code_refuses_what_the_program_was_not_made_for(
        self, load: Callable[..., Any], add_model: AddModel, run: Run
    ) -> None:
        """AOTInductor drops guards of a program, and then reads beyond tensors that are too small."""
        two = TENSORS.replace("}]", "}, { name: INPUT__1, data_type: TYPE_FP32, dims: [-1] }]", 1)
        source = trace("return x + y if x.size(1) % 2 == 1 else x - y")
        source = source.replace("def forward(self, x)", "def forward(self, x, y)")
        source = source.replace("example_inputs=(torch.rand(2, 3),)", "example_inputs=tuple(torch.rand(2, 2, 3))")
        source = source.replace("[(torch.rand(*shape),) for", "[tuple(torch.rand(2, *shape)) for").replace(
            "(1, 2)", "(1, 3)"
        )
        folder = add_model("m", source, "torch_aoti", two)
        assert run()[0] == 0
        program = torch.export.load(folder / "1" / "model.pt2")
        model = load(
            ["INPUT__0", "INPUT__1"],
            ["OUTPUT__0"],
            lambda path: torch._inductor.aoti_compile_and_package(
                program, package_path=str(path), inductor_configs={"aot_inductor.check_lowerbound": False}
            ),
        )

        def answer(x: Tensor, y: Tensor) -> Any:
            [response] = model.execute([FakeRequest({"INPUT__0": x, "INPUT__1": y}, {"OUTPUT__0"})])
            return response

        for batch in (1, 4):
            torch.testing.assert_close(
                answer(torch.ones(batch, 5), torch.ones(batch, 5)).outputs["OUTPUT__0"], torch.full((batch, 5), 2.0)
            )
        for x, y in [((1, 4), (1, 4)), ((1, 7), (1, 3)), ((1, 0), (1, 0)), ((2, 3), (1, 3))]:
            assert answer(torch.ones(x), torch.ones(y)).error is not None
