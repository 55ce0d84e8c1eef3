"""Multiplies by a parameter of its configuration."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.factor = np.float32(config["parameters"]["factor"]["string_value"])
        self.type = pb_utils.triton_string_to_numpy(pb_utils.get_output_config_by_name(config, "y")["data_type"])

    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", (x * self.factor).astype(self.type))]) for x in inputs]
