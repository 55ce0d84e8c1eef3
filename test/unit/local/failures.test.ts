import { describeFailures } from '../../../src/local/report';
import { paths } from '../../../src/core/paths';

test.each([
  [paths.modelRepository, true, '"npm run local" loads them again when their files change.'],
  [paths.modelRepository, false, 'Then run: npm run sync-models -- --local --models a,b'],
  ['/my models', false, "Then run: npm run sync-models -- --local --repo '/my models' --models a,b"],
])('describeFailures names the next step for %s, watched: %s', (repository, isWatched, next) => {
  expect(describeFailures(['a', 'b'], repository, isWatched)).toMatch(/^FAILED: a, b\. Fix .*a, .*b\. /);
  expect(describeFailures(['a', 'b'], repository, isWatched)).toContain(next);
});
