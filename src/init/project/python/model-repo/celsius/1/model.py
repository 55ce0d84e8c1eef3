import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.respond(request) for request in requests]

    def respond(self, request):
        fahrenheit = pb_utils.get_input_tensor_by_name(request, "fahrenheit").as_numpy()  # [batch, 1]
        celsius = (fahrenheit - 32) * 5 / 9
        return pb_utils.InferenceResponse([pb_utils.Tensor("celsius", celsius.astype("float32"))])
