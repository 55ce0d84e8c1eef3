import { refusedModel } from '../../../src/local/publish-batch';
import { describeFailures } from '../../../src/local/report';

test.each([
  { isWatched: true, next: '"npm run local" loads them again when their files change.' },
  { isWatched: false, next: 'Then start "npm run local" again.' },
])('describeFailures names the next step, watched: $isWatched', ({ isWatched, next }) => {
  expect(describeFailures(['a', 'b'], '/my models', isWatched)).toBe(
    `FAILED: a, b. Fix /my models/a, /my models/b. ${next}`,
  );
});

const NAMES = ['a', 'ens_v2.1', 'resnet'];
const replica = 'http://127.0.0.1:8000 does not serve the release: ';

test.each([
  [`${replica}Triton cannot load resnet: load failed for model 'resnet'`, 'resnet'],
  [`${replica}Triton cannot load ens_v2.1: no weights\nsecond line`, 'ens_v2.1'],
  [`${replica}Triton does not serve ens_v2.1 version 3: UNAVAILABLE`, 'ens_v2.1'],
  [`${replica}Triton did not load resnet within 300 s`, 'resnet'],
  [`${replica}Triton ended while it loaded a, resnet, or does not answer: socket hang up`, 'a'],
  [`${replica}Triton no longer serves a: it has restarted, or a process of a model has ended`, 'a'],
  [`${replica}resnet version 1 gives a wrong answer to golden request cat: y[0] is 1`, 'resnet'],
  [`${replica}resnet version 1 did not answer golden request cat: no`, 'resnet'],
  [`${replica}a version 1 contradicts its configuration: no output y`, 'a'],
  [`${replica}a version 1 failed on the zero request: it ended`, 'a'],
  [`${replica}Triton cannot load other: no`, undefined],
  ['a is not reachable', undefined],
])('the model that a refusal is about: %s', (message, model) => {
  expect(refusedModel(message, NAMES)).toBe(model);
});
