"""Adds and subtracts, all requests that Triton has collected at once. Refuses requests with a negative a."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        pairs = [
            [pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("a", "b")] for request in requests
        ]
        a, b = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
        added, subtracted = a + b, a - b
        responses = []
        start = 0
        for own, _ in pairs:
            rows = slice(start, start + len(own))
            start = rows.stop
            if (own < 0).any():
                error = pb_utils.TritonError(f"a is negative: {own.min()}", pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse([], error))
                continue
            count = np.full([len(own), 1], len(requests), np.int32)
            tensors = {"sum": added[rows], "difference": subtracted[rows], "requests": count}
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor(*item) for item in tensors.items()]))
        return responses
