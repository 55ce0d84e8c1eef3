import { UserError } from '../../../src/core/errors';
import { requirePretrained } from '../../../src/publish/require-pretrained';

const DRAWN = 'seeded random weights (seed 0), not pretrained';

test.each<[what: string, served: number[], weights: Record<string, string>, kinds: Record<string, string> | undefined]>(
  [
    ['trained weights', [1], { 1: 'ResNet-50' }, { 1: 'pretrained' }],
    ['a file that no trace made', [1], {}, {}],
    ['a release from before kinds were recorded', [1], { 1: 'ResNet-50' }, undefined],
    ['random weights of a version that is not served', [2], { 1: DRAWN, 2: 'B' }, { 1: 'random', 2: 'pretrained' }],
  ],
)('%s: let through', (_, served, weights, weightKinds) => {
  const model = { name: 'm', served, weights, ...(weightKinds === undefined ? {} : { weightKinds }) };
  expect(() => requirePretrained([model], 'R')).not.toThrow();
});

test.each<[what: string, weights: Record<string, string>, kinds: Record<string, string> | undefined, says: string]>([
  ['random weights', { 2: 'drawn by hand' }, { 2: 'random' }, 'drawn by hand'],
  ['random weights without words', {}, { 2: 'random' }, 'random weights'],
  ['a release from before kinds were recorded', { 2: DRAWN }, undefined, DRAWN],
])('%s: refused with the model and version', (_, weights, weightKinds, says) => {
  const model = { name: 'm', served: [1, 2], weights, ...(weightKinds === undefined ? {} : { weightKinds }) };
  const fine = { name: 'n', served: [1], weights: { 1: 'B' } };
  let error: unknown;
  try {
    requirePretrained([fine, model], 'R');
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(UserError);
  expect((error as UserError).problems).toEqual([{ file: 'm 2', message: says }]);
});
