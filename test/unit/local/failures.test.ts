import { describeFailures } from '../../../src/local/report';
import { paths } from '../../../src/core/paths';

test.each([
  [paths.modelRepository, true, 'They are loaded again when files of theirs change.'],
  [paths.modelRepository, false, 'Then: npm run sync-models -- --local --models a,b'],
  ['/my models', false, "Then: npm run sync-models -- --local --repo '/my models' --models a,b"],
])('describeFailures of %s, watched: %s', (repository, isWatched, next) => {
  expect(describeFailures(['a', 'b'], repository, isWatched)).toMatch(/^FAILED: a, b\. Fix .*a, .*b\. /);
  expect(describeFailures(['a', 'b'], repository, isWatched)).toContain(next);
});
