import { describeFailures } from '../../../src/local/report';

test.each([
  { isWatched: true, next: '"npm run local" loads them again when their files change.' },
  { isWatched: false, next: 'Then start "npm run local" again.' },
])('describeFailures names the next step, watched: $isWatched', ({ isWatched, next }) => {
  expect(describeFailures(['a', 'b'], '/my models', isWatched)).toBe(
    `FAILED: a, b. Fix /my models/a, /my models/b. ${next}`,
  );
});
