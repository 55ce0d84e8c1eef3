import { Progress, stepsLine } from '../../../src/cli/progress';

const promote = {
  title: 'promote staging (s3://staging-models/models) to prod (s3://prod-models/models)',
  state: ': resnet/1/model.pt, 12.0 MB of 98.0 MB, 30.1 MB/s, 2.9 s left (1 s)',
};

test('steps as they are where they fit, or where nothing is redrawn', () => {
  const whole = `...  ${promote.title}${promote.state}`;
  expect(stepsLine([promote])).toBe(whole);
  expect(stepsLine([promote], whole.length)).toBe(whole);
});

test('titles are shortened before how far the steps are', () => {
  expect(stepsLine([promote], 100)).toBe(`...  promote staging (s3://st...${promote.state}`);
  expect(stepsLine([promote], 100)).toHaveLength(100);
  expect(stepsLine([promote, { title: 'b', state: ' (2 s)' }], 120)).toBe(
    `...  promote staging ...${promote.state} | b (2 s)`,
  );
  // Too narrow for both: enough of the title is left to know it by.
  expect(stepsLine([promote], 40)).toBe('...  promote s...: resnet/1/model.pt, 12');
});

test('on a terminal one line is redrawn, and taken away before another one', () => {
  jest.useFakeTimers();
  try {
    const written: string[] = [];
    const stream = { isTTY: true, columns: 60, write: (text: string) => written.push(text) };
    const progress = new Progress(stream as unknown as NodeJS.WriteStream);
    const step = progress.step('publish model-repo to s3://staging-models/models');
    step.update('12.0 MB of 98.0 MB, 30.1 MB/s');
    jest.advanceTimersByTime(1000);
    expect(written.at(-1)).toBe('\r\x1b[K...  publish model-...: 12.0 MB of 98.0 MB, 30.1 MB/s (1 s)');
    step.done('all of it');
    expect(written.slice(-2)).toEqual([
      '\r\x1b[K',
      'ok   publish model-repo to s3://staging-models/models: all of it (1.0 s)\n',
    ]);
  } finally {
    jest.useRealTimers();
  }
});
