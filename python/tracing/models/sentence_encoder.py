"""BERT as a sentence encoder, for texts of any length.

A trace records the operations of one run, so a branch that depends on data or shapes would be frozen as taken for the
tracing input. The code with branches is therefore scripted in a trace; the network, which has none, is traced.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertModel

from tracing.models.sentence_modules import SentenceModules


@torch.jit.script_if_tracing  # type: ignore[untyped-decorator]
def guarded(
    input_ids: Tensor, attention_mask: Tensor, max_tokens: int, vocabulary: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Convert any request to inputs that the network can compute.

    max_tokens: number of positions of the network; longer texts are truncated.  vocabulary: number of token ids.

    Returns ids and mask, INT64 [batch, 2 to max_tokens], and BOOL [batch]: which texts have unknown ids.
    Every row of the mask has a 1. An id outside the vocabulary is replaced, because its lookup on a GPU would break
    every model of the server process, and an error would fail every request of the batch. Wrong shapes raise
    ValueError: Triton batches only requests of equal shapes, so all requests of the batch are wrong.
    """
    if input_ids.dim() != 2 or input_ids.shape != attention_mask.shape or input_ids.size(1) == 0:
        raise ValueError(
            f"input ids have shape {input_ids.shape} and the mask {attention_mask.shape}: "
            "both must be [batch, tokens], equal, with at least one token"
        )
    given = input_ids.size(1)
    tokens = -_smaller(-_smaller(given, max_tokens), -2)  # torch.export treats a size of 1 as special
    # Not a slice, which would fix in a program whether the text was longer.
    position = torch.arange(tokens, device=input_ids.device)
    kept = position.clamp(max=given - 1)
    ids = input_ids.index_select(1, kept)
    mask = ((attention_mask.index_select(1, kept) != 0) & (position < given)).to(torch.int64)
    unknown = ((ids < 0) | (ids >= vocabulary)).any(dim=1)
    ids = ids.clamp(0, vocabulary - 1)
    # The mean over no tokens is undefined, so all tokens of a text with an empty mask count.
    empty = mask.sum(dim=1, keepdim=True) == 0
    return ids, torch.where(empty, (position < given).to(torch.int64), mask), unknown


@torch.jit.script_if_tracing  # type: ignore[untyped-decorator]
def of_given_tokens(states: Tensor, input_ids: Tensor) -> Tensor:
    """Remove the tokens that `guarded` has added."""
    return states.index_select(1, torch.arange(_smaller(input_ids.size(1), states.size(1)), device=states.device))


def _smaller(one: int, other: int) -> int:
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        return min(one, other)
    return torch.sym_min(one, other)  # type: ignore[return-value]


class SentenceEncoder(nn.Module):
    """Computes token states and one embedding per text from token ids and their mask.

    The embedding is that of the training (Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084): the mean of the
    states of the tokens in the mask, or the state of the first token (`cls`), divided by its Euclidean norm if the
    modules include Normalize. All numbers of a text with an id outside the vocabulary are NaN.
    """

    def __init__(self, network: BertModel, modules: SentenceModules = SentenceModules()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.pooling = modules.pooling
        self.normalize = modules.normalize
        config = network.config
        self.max_tokens = config.max_position_embeddings
        self.vocabulary = config.vocab_size
        self.network = network

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """INT64 [batch, tokens] twice -> FP32 [batch, min(tokens, max), hidden] and FP32 [batch, hidden]."""
        ids, mask, unknown = guarded(input_ids, attention_mask, self.max_tokens, self.vocabulary)
        keep = mask.to(torch.float32)
        # The bias that attention adds to its scores. transformers uses a 4-D mask, [batch, 1, 1, tokens], unchanged. It
        # would convert a 2-D mask with branches on the data, and the trace would freeze one of them.
        bias = (1.0 - keep)[:, None, None, :] * torch.finfo(torch.float32).min
        states = self.network(input_ids=ids, attention_mask=bias).last_hidden_state
        states = states.masked_fill(unknown[:, None, None], math.nan)
        if self.pooling == "cls":
            embedding = states[:, 0]
        else:
            weight = keep[:, :, None]
            embedding = (states * weight).sum(dim=1) / weight.sum(dim=1)
        states = of_given_tokens(states, input_ids)
        return states, functional.normalize(embedding, dim=1) if self.normalize else embedding
