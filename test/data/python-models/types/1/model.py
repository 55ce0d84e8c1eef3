"""Changes each input in a way that shows whether its values, and not only its bytes, came across."""

import numpy as np
import triton_python_backend_utils as pb_utils


def changed(x: np.ndarray) -> np.ndarray:
    """Not x for booleans, upper case for strings, the numbers of each row in reverse and one more for the rest."""
    if x.dtype == np.bool_:
        return np.logical_not(x)
    if x.dtype == np.object_:
        upper = [value.decode("utf-8").upper().encode("utf-8") for value in x.reshape(-1)]
        return np.array(upper, dtype=np.object_).reshape(x.shape)
    return x[:, ::-1] + x.dtype.type(1)


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            outputs = []
            for name in request.requested_output_names():
                x = pb_utils.get_input_tensor_by_name(request, name.removeprefix("changed_")).as_numpy()
                outputs.append(pb_utils.Tensor(name, changed(x)))
            responses.append(pb_utils.InferenceResponse(outputs))
        return responses
