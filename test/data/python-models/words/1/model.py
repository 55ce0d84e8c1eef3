"""Sends each word of a text in a response of its own; refuses an empty text."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            text = pb_utils.get_input_tensor_by_name(request, "text").as_numpy()[0].decode("utf-8")
            if not text:
                sender.send(pb_utils.InferenceResponse([], pb_utils.TritonError("the text is empty")))
            for word in text.split():
                tensors = [
                    pb_utils.Tensor("word", np.array([word.encode("utf-8")], dtype=np.object_)),
                    pb_utils.Tensor("length", np.array([len(word)], dtype=np.int32)),
                ]
                sender.send(pb_utils.InferenceResponse(tensors))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
