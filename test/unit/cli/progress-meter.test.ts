import { ProgressMeter } from '../../../src/cli/progress-meter';

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
