import { UserError } from '../../../src/core/errors';
import type { DesiredModel } from '../../../src/publish/desired';
import { requirePretrained } from '../../../src/publish/require-pretrained';

const DRAWN = 'seeded random weights (seed 0), not pretrained';

interface Weights {
  title: string;
  served: number[];
  weights: Record<string, string>;
  weightKinds?: DesiredModel['weightKinds'];
}

test.each<Weights>([
  { title: 'trained weights', served: [1], weights: { 1: 'ResNet-50' }, weightKinds: { 1: 'pretrained' } },
  { title: 'a file that was not traced', served: [1], weights: {}, weightKinds: {} },
  {
    title: 'random weights of a version that is not served',
    served: [2],
    weights: { 1: DRAWN, 2: 'B' },
    weightKinds: { 1: 'random', 2: 'pretrained' },
  },
])('requirePretrained accepts $title', ({ served, weights, weightKinds }) => {
  expect(() => requirePretrained([{ name: 'm', served, weights, weightKinds }], 'R')).not.toThrow();
});

test.each<Omit<Weights, 'served'> & { message: string }>([
  {
    title: 'random weights',
    weights: { 2: 'drawn by hand' },
    weightKinds: { 2: 'random' },
    message: 'drawn by hand',
  },
  {
    title: 'random weights without a description',
    weights: {},
    weightKinds: { 2: 'random' },
    message: 'random weights',
  },
])('requirePretrained rejects $title with the model and version', ({ weights, weightKinds, message }) => {
  const model = { name: 'm', served: [1, 2], weights, weightKinds };
  const trained = { name: 'n', served: [1], weights: { 1: 'B' } };
  let error: unknown;
  try {
    requirePretrained([trained, model], 'R');
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(UserError);
  expect((error as UserError).problems).toEqual([{ file: 'm 2', message }]);
});
