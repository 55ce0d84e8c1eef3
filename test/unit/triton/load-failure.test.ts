import { explainLoadFailure } from '../../../src/triton/load-failure';

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
