import { Progress, stepsLine } from '../../../src/cli/progress';

const promote = {
  title: 'promote staging (s3://staging-models/models) to prod (s3://prod-models/models)',
  state: ': resnet/1/model.pt, 12.0 MB of 98.0 MB, 30.1 MB/s, 2.9 s left (1 s)',
};

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

test('stepsLine keeps titles that fit, or that have no limit', () => {
  const whole = `...  ${promote.title}${promote.state}`;
  expect(stepsLine([promote])).toBe(whole);
  expect(stepsLine([promote], whole.length)).toBe(whole);
});

test('stepsLine shortens a title to make room for the state', () => {
  expect(stepsLine([promote], 100)).toBe(`...  promote staging (s3://st...${promote.state}`);
  expect(stepsLine([promote], 100)).toHaveLength(100);
  // Too narrow for both: enough of the title remains to recognise the step.
  expect(stepsLine([promote], 40)).toBe('...  promote s...: resnet/1/model.pt, 12');
});

test('stepsLine gives the room that a short title leaves to the others', () => {
  const line = stepsLine([promote, { title: 'b', state: ' (2 s)' }], 120);
  expect(line).toBe(`...  promote staging (s3://staging-mode...${promote.state} | b (2 s)`);
  expect(line).toHaveLength(120);
});

/** A Progress with the text that it writes. */
function progressOn(stream: { isTTY: boolean; columns?: number }): { progress: Progress; written: string[] } {
  const written: string[] = [];
  const write = (text: string): number => written.push(text);
  return { progress: new Progress({ ...stream, write } as unknown as NodeJS.WriteStream), written };
}

test('Progress redraws one line of a terminal, and erases it before it prints another one', () => {
  const { progress, written } = progressOn({ isTTY: true, columns: 60 });
  const step = progress.step('publish model-repo to s3://staging-models/models');
  step.update('12.0 MB of 98.0 MB, 30.1 MB/s');
  jest.advanceTimersByTime(1000);
  expect(written.at(-1)).toBe('\r\x1b[K...  publish model-...: 12.0 MB of 98.0 MB, 30.1 MB/s (1 s)');
  step.done('3 models');
  expect(written.slice(-2)).toEqual([
    '\r\x1b[K',
    'ok   publish model-repo to s3://staging-models/models: 3 models (1.0 s)\n',
  ]);
});

test('Progress reports running steps every 15 s if the output is not a terminal, counted from their start', () => {
  const { progress, written } = progressOn({ isTTY: false });
  jest.advanceTimersByTime(60_000);
  const step = progress.step('trace');
  jest.advanceTimersByTime(14_000);
  expect(written).toEqual([]);
  jest.advanceTimersByTime(16_000);
  expect(written).toEqual(['...  trace (15 s)\n', '...  trace (30 s)\n']);
  step.failed();
  expect(written.at(-1)).toBe('FAIL trace (30.0 s)\n');
});
