"""Runs several requests in one forward call. Independent of Triton and of the framework."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Generic, Protocol, TypeVar

from .spec import ModelError, ModelSpec

SelfT = TypeVar("SelfT")


class Array(Protocol):
    """Common interface of torch.Tensor and numpy.ndarray. Slicing along axis 0 returns a view, not a copy."""

    @property
    def shape(self) -> Sequence[int]: ...

    def __getitem__(self: SelfT, rows: slice, /) -> SelfT: ...


ArrayT = TypeVar("ArrayT", bound=Array)


class Runner(Protocol[ArrayT]):
    """One loaded model."""

    def forward(self, inputs: dict[str, ArrayT]) -> dict[str, ArrayT]:
        """Run the model once; returns output name -> array for every output of the configuration."""

    def concatenate(self, arrays: Sequence[ArrayT]) -> ArrayT:
        """Join along axis 0."""

    def data_type(self, array: ArrayT) -> str:
        """Return Triton's name of the element type: FP32, INT64, ..."""


class Batcher(Generic[ArrayT]):
    """Runs lists of requests through a `Runner`; a request is {input name: array}, a result {output name: array}."""

    def __init__(self, spec: ModelSpec, runner: Runner[ArrayT]) -> None:
        self.spec = spec
        self.runner = runner

    def run(self, requests: Sequence[dict[str, ArrayT]]) -> list[dict[str, ArrayT] | Exception]:
        """Return one entry for each request, in order: its outputs, or the exception why it has none.

        With a batch axis all requests share one forward call and its error, as in Triton's own backends. Triton joins
        only requests whose tensors agree in everything but the batch size.
        """
        if self.spec.batched:
            return self._run_group(requests)
        return [result for request in requests for result in self._run_group([request])]

    def _run_group(self, group: Sequence[dict[str, ArrayT]]) -> list[dict[str, ArrayT] | Exception]:
        try:
            return list(self._forward(group))
        except Exception as error:
            return [error] * len(group)

    def _forward(self, group: Sequence[dict[str, ArrayT]]) -> list[dict[str, ArrayT]]:
        if len(group) == 1:
            inputs = group[0]
        else:
            inputs = {name: self.runner.concatenate([request[name] for request in group]) for name in group[0]}
        batch = next(iter(inputs.values())).shape[0] if self.spec.batched else None
        outputs = self.runner.forward(inputs)
        self._check(outputs, batch)
        if len(group) == 1:
            return [outputs]
        ends = list(accumulate(next(iter(request.values())).shape[0] for request in group))
        starts = [0, *ends[:-1]]
        return [
            {name: array[start:end] for name, array in outputs.items()} for start, end in zip(starts, ends, strict=True)
        ]

    def _check(self, outputs: dict[str, ArrayT], batch: int | None) -> None:
        """Raise ModelError if an output differs from the configuration in data type or shape."""
        for tensor in self.spec.outputs:
            array = outputs[tensor.name]
            data_type = self.runner.data_type(array)
            if data_type != tensor.data_type:
                raise ModelError(
                    f"configuration expects datatype TYPE_{tensor.data_type} for output '{tensor.name}',"
                    f" model provides TYPE_{data_type}"
                )
            got = tuple(array.shape)
            if not got:
                raise ModelError(f"output '{tensor.name}' is a scalar which is not supported.")
            expected = tensor.dims if batch is None else (batch, *tensor.dims)
            if len(got) != len(expected) or any(e not in (-1, g) for g, e in zip(got, expected, strict=True)):
                axes = "dims" if batch is None else f"batch of {batch} and dims"
                raise ModelError(
                    f"output '{tensor.name}' has shape {list(got)}, expected {list(expected)}"
                    f" ({axes} {list(tensor.dims)} in the configuration)"
                )
