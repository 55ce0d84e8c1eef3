/** One step, in milliseconds since the first could begin. */
export interface TimedStep {
  name: string;
  startMs: number;
  milliseconds: number;
}

/** How long each step took, in order of their start. */
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

  /** @returns ends the step; the first call counts */
  begin(name: string): () => void {
    const started = Date.now();
    const step = { name, startMs: started - this.started, milliseconds: Number.NaN };
    this.steps.push(step);
    return () => {
      if (Number.isNaN(step.milliseconds)) step.milliseconds = Date.now() - started;
    };
  }

  /** Since this object was made. */
  get total(): number {
    return Date.now() - this.started;
  }
}
