import { explainLoadFailure, explainRequestFailure } from '../../../src/triton/load-failure';

test.each([
  [
    "Internal: ModuleNotFoundError: No module named 'PIL.Image'\n\nAt:\n  model.py(1)",
    /^add pillow to m\/requirements\.txt/,
  ],
  ['instance group m of model m has kind KIND_GPU but no GPUs are available', /^omit "kind" in/],
  ['Internal: RuntimeError: no weights', undefined],
])('explainLoadFailure gives the next step for: %s', (reason, hint) => {
  const found = explainLoadFailure('m', reason);
  expect(found.message).not.toContain('At:');
  if (hint === undefined) expect(found.hint).toBeUndefined();
  else expect(found.hint).toMatch(hint);
});

test('explainRequestFailure keeps the cause of a TorchScript error', () => {
  const reason = `PyTorch execute failure: The following operation failed in the TorchScript interpreter.
Traceback of TorchScript (most recent call last):
  File "/torch/nn/functional.py", line 2818, in _verify_batch_size
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")
        ~~~~~ <--- HERE
builtins.ValueError: Expected more than 1 value per channel when training, got input size [1, 4]
`;
  expect(explainRequestFailure('m', reason)).toBe(
    'PyTorch execute failure: ValueError: Expected more than 1 value per channel when training, got input size [1, 4]',
  );
});
