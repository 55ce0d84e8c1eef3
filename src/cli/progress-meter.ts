import { formatBytes, formatDuration } from '../core/format';

/** Progress of a transfer as a line: `1.2 GB of 4.0 GB, 210 MB/s, 13 s left`. */
export class ProgressMeter {
  private sent = 0;
  private started: number | undefined;

  constructor(
    private readonly total: number,
    private readonly now: () => number = () => performance.now(),
  ) {}

  add(bytes: number): string {
    this.started ??= this.now();
    this.sent = Math.min(this.sent + bytes, this.total);
    const seconds = (this.now() - this.started) / 1000;
    const rate = seconds > 0 ? this.sent / seconds : 0;
    const left = rate > 0 ? `, ${formatDuration((1000 * (this.total - this.sent)) / rate)} left` : '';
    const speed = rate > 0 ? `, ${formatBytes(rate)}/s` : '';
    return `${formatBytes(this.sent)} of ${formatBytes(this.total)}${speed}${left}`;
  }
}
