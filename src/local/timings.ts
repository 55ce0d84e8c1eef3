/** One step, with its start in milliseconds since the timings began. */
export interface TimedStep {
  name: string;
  startMs: number;
  milliseconds: number;
}

/** Durations of all steps, ordered by start. */
export class Timings {
  readonly steps: TimedStep[] = [];
  private readonly started = Date.now();

  async measure<T>(name: string, work: () => Promise<T>): Promise<T> {
    const end = this.begin(name);
    try {
      return await work();
    } finally {
      end();
    }
  }

  /** @returns function that ends the step; only its first call counts */
  begin(name: string): () => void {
    const started = Date.now();
    const step = { name, startMs: started - this.started, milliseconds: Number.NaN };
    this.steps.push(step);
    return () => {
      if (Number.isNaN(step.milliseconds)) step.milliseconds = Date.now() - started;
    };
  }

  /** Milliseconds since this object was created. */
  get total(): number {
    return Date.now() - this.started;
  }
}
