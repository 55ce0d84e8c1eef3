import { formatDuration, shortened } from '../core/format';

/** Interval of the lines that report running steps if the output is not a terminal. */
const HEARTBEAT_MS = 8000;

/** Width of a terminal that does not report its width. */
const USUAL_COLUMNS = 80;

/** A title is not shortened to less than this, however long the rest of the line is. */
const LEAST_TITLE = 12;

/** A long step: shows that it is running, and how long it took. */
export interface Step {
  /** Replaces the detail that is shown while the step runs. */
  update(detail: string): void;
  done(result?: string): void;
  failed(): void;
}

/**
 * Shows the progress of long work on stderr, so that stdout has only results. On a terminal the running steps share one
 * line that is redrawn. Elsewhere each step prints a line when it ends; while steps run for long, a line is printed at
 * intervals.
 */
export class Progress {
  private readonly running = new Map<symbol, { title: string; detail: string; started: number }>();
  private timer: NodeJS.Timeout | undefined;
  /** Time of the last report of running steps; at first the start of the first of them. */
  private lastBeat = 0;
  private drawn = false;

  constructor(
    private readonly stream: NodeJS.WriteStream = process.stderr,
    private readonly quiet = false,
  ) {}

  step(title: string): Step {
    const key = Symbol(title);
    const entry = { title, detail: '', started: Date.now() };
    if (this.running.size === 0) this.lastBeat = entry.started;
    this.running.set(key, entry);
    this.timer ??= setInterval(() => this.tick(), this.stream.isTTY ? 200 : 1000).unref();
    const end = (mark: string, result: string): void => {
      if (!this.running.delete(key)) return;
      if (this.running.size === 0) {
        clearInterval(this.timer);
        this.timer = undefined;
      }
      const took = formatDuration(Date.now() - entry.started);
      this.line(`${mark} ${title}${result === '' ? '' : `: ${result}`} (${took})`);
    };
    return {
      update: (detail) => {
        entry.detail = detail;
      },
      done: (result) => end('ok  ', result ?? ''),
      failed: () => end('FAIL', ''),
    };
  }

  async run<T>(title: string, work: (step: Step) => Promise<T>, result?: (value: T) => string): Promise<T> {
    const step = this.step(title);
    try {
      const value = await work(step);
      step.done(result?.(value));
      return value;
    } catch (error) {
      step.failed();
      throw error;
    }
  }

  /** Ends the running steps without printing them, because an interrupted step did not fail. */
  abandon(): void {
    this.running.clear();
    clearInterval(this.timer);
    this.timer = undefined;
  }

  /** Prints a separate line. */
  line(text: string): void {
    if (this.quiet) return;
    this.erase();
    this.stream.write(`${text}\n`);
  }

  /** Erases the redrawn line, before other code writes to the terminal. */
  erase(): void {
    if (this.drawn) this.stream.write('\r\x1b[K');
    this.drawn = false;
  }

  private tick(): void {
    if (this.quiet) return;
    const steps = [...this.running.values()].map(({ title, detail, started }) => ({
      title,
      state: `${detail === '' ? '' : `: ${detail}`} (${Math.round((Date.now() - started) / 1000)} s)`,
    }));
    if (this.stream.isTTY) {
      const columns = this.stream.columns > 0 ? this.stream.columns : USUAL_COLUMNS;
      this.stream.write(`\r\x1b[K${stepsLine(steps, columns - 1)}`);
      this.drawn = true;
    } else if (Date.now() - this.lastBeat >= HEARTBEAT_MS) {
      this.lastBeat = Date.now();
      this.stream.write(`${stepsLine(steps)}\n`);
    }
  }
}

/**
 * The running steps on one line. If they do not fit, the longest titles are shortened first, so that the state of each
 * step stays visible.
 */
function stepsLine(steps: readonly { title: string; state: string }[], columns = Infinity): string {
  const line = (most: number): string =>
    `...  ${steps.map(({ title, state }) => `${shortened(title, most)}${state}`).join(' | ')}`;
  let most = Math.max(0, ...steps.map(({ title }) => title.length));
  while (most > LEAST_TITLE && line(most).length > columns) most -= 1;
  return line(most).slice(0, columns);
}
