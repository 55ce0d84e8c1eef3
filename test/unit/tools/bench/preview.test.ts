import { summarize } from '../../../../tools/bench/preview/summary';

/** The whole takes 1 s more than from the start of the program. */
const samples = (...seconds: number[]) => seconds.map((one) => ({ seconds: one + 1, fromProgramSeconds: one }));

test('what the two providers take is taken off round by round, and compared round by round', () => {
  const result = summarize(
    new Map([
      ['empty', samples(1, 2, 1)],
      ['providers', samples(3, 5, 1)],
      ['staging', samples(4, 8, 2)],
    ]),
  );
  // Providers alone: 2, 3, 0 s. The rest of staging: 2, 5, 2 s.
  expect(result.beyondProviders).toEqual({ stagingSeconds: 2, emptySeconds: 1, ratio: 2 });
  expect(result.whole).toEqual({ stagingSeconds: 3, emptySeconds: 2, ratio: 1.5 });
  expect(result.overProviders).toEqual({ stagingSeconds: 5, providersSeconds: 4, ratio: 1.5 });
  expect(result.rows.staging).toEqual({ seconds: [5, 9, 3], fromProgramSeconds: [4, 8, 2] });
});

test('providers that start in no time are not taken off twice', () => {
  const result = summarize(
    new Map([
      ['empty', samples(2)],
      ['providers', samples(1)],
      ['staging', samples(3)],
    ]),
  );
  expect(result.beyondProviders.ratio).toBe(1.5);
});
