"""Asks the model "scales" for each row side by side."""

import asyncio

import numpy as np
import triton_python_backend_utils as pb_utils


async def ask(row):
    x = pb_utils.Tensor("x", row[np.newaxis])
    request = pb_utils.InferenceRequest(model_name="scales", requested_output_names=["y"], inputs=[x])
    answer = await request.async_exec()
    if answer.has_error():
        raise pb_utils.TritonModelException(answer.error().message())
    return pb_utils.get_output_tensor_by_name(answer, "y").as_numpy()


class TritonPythonModel:
    async def execute(self, requests):
        responses = []
        for request in requests:
            rows = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            answers = await asyncio.gather(*(ask(row) for row in rows))
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", np.concatenate(answers))]))
        return responses
