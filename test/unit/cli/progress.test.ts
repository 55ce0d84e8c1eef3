import { Progress } from '../../../src/cli/progress';
import { ProgressMeter } from '../../../src/cli/progress-meter';

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

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

test('Progress reports running steps every 8 s if the output is not a terminal, counted from their start', () => {
  const { progress, written } = progressOn({ isTTY: false });
  jest.advanceTimersByTime(60_000);
  const step = progress.step('trace');
  jest.advanceTimersByTime(7000);
  expect(written).toEqual([]);
  jest.advanceTimersByTime(9000);
  expect(written).toEqual(['...  trace (8 s)\n', '...  trace (16 s)\n']);
  step.failed();
  expect(written.at(-1)).toBe('FAIL trace (16.0 s)\n');
});

test('Transfer.add reports bytes, rate and time left', () => {
  let now = 0;
  const transfer = new ProgressMeter(4_000_000_000, () => now);
  expect(transfer.add(0)).toBe('0 B of 4.00 GB');
  now = 2000;
  expect(transfer.add(1_000_000_000)).toBe('1.00 GB of 4.00 GB, 500.0 MB/s, 6.0 s left');
  now = 8000;
  // A part that was sent twice does not raise the sum above the total.
  expect(transfer.add(3_500_000_000)).toBe('4.00 GB of 4.00 GB, 500.0 MB/s, 0 ms left');
});
