"""BERT as a sentence encoder, for texts of any length: a scripted guard before a traced network.

A trace records the operations of one run: a decision that depends on data or on shapes would be frozen as it fell for
the tracing input. So whatever decides is scripted (`TokenGuard`), and the network, which only computes, is traced.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertModel

from tracing.models.sentence_modules import SentenceModules


class TokenGuard(nn.Module):
    """Makes of any request one that the network can compute; to be scripted, never traced.

    max_tokens: positions that the network has; longer texts are cut.  vocabulary: number of token ids.
    """

    def __init__(self, max_tokens: int, vocabulary: int) -> None:
        super().__init__()
        self.max_tokens = max_tokens
        self.vocabulary = vocabulary

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Ids and mask, INT64 [batch, tokens], no longer than max_tokens, the mask with a 1 in every row.

        And BOOL [batch], which texts have ids outside the vocabulary. Looked up on a GPU, such an id would break every
        model of the server process, so another id takes its place. It is no error either: Triton would answer every
        request of the batch with it. Shapes that do not belong together raise ValueError: Triton puts only requests of
        equal shapes into a batch, so all of them are wrong.
        """
        if input_ids.dim() != 2 or input_ids.shape != attention_mask.shape or input_ids.size(1) == 0:
            raise ValueError(
                f"input ids have shape {input_ids.shape} and the mask {attention_mask.shape}: "
                "both must be [batch, tokens], equal, with at least one token"
            )
        ids = input_ids[:, : self.max_tokens]
        mask = (attention_mask[:, : self.max_tokens] != 0).to(torch.int64)
        unknown = ((ids < 0) | (ids >= self.vocabulary)).any(dim=1)
        ids = ids.clamp(0, self.vocabulary - 1)
        # A text without any token to look at has no mean: all its tokens count instead.
        empty = mask.sum(dim=1, keepdim=True) == 0
        return ids, mask.masked_fill(empty, 1), unknown


class SentenceEncoder(nn.Module):
    """States of the tokens and one vector a text, from token ids and their mask.

    The embedding is what the model was trained with (Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084): the
    mean of the states of the tokens that the mask keeps, or the state of the first token (`cls`), divided by its
    Euclidean norm where the modules have Normalize. All numbers of a text with an id outside the vocabulary are NaN.
    """

    def __init__(self, network: BertModel, modules: SentenceModules = SentenceModules()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.pooling = modules.pooling
        self.normalize = modules.normalize
        config = network.config
        self.guard = torch.jit.script(TokenGuard(config.max_position_embeddings, config.vocab_size))
        self.network = network

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """INT64 [batch, tokens] twice -> FP32 [batch, min(tokens, max), hidden] and FP32 [batch, hidden]."""
        ids, mask, unknown = self.guard(input_ids, attention_mask)
        keep = mask.to(torch.float32)
        # What attention adds to its scores. In this form, [batch, 1, 1, tokens], transformers takes it as it is; from a
        # 2-D mask it would make one by code that looks at the data, and the trace would keep one of its branches.
        bias = (1.0 - keep)[:, None, None, :] * torch.finfo(torch.float32).min
        states = self.network(input_ids=ids, attention_mask=bias).last_hidden_state
        states = states.masked_fill(unknown[:, None, None], math.nan)
        if self.pooling == "cls":
            embedding = states[:, 0]
        else:
            weight = keep[:, :, None]
            embedding = (states * weight).sum(dim=1) / weight.sum(dim=1)
        return states, functional.normalize(embedding, dim=1) if self.normalize else embedding
