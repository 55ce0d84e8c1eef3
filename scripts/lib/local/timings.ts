/** How long each step took, in order of their start. */
export class Timings {
  readonly steps: { name: string; milliseconds: number }[] = [];
  private readonly started = Date.now();

  async measure<T>(name: string, work: () => Promise<T>): Promise<T> {
    const step = { name, milliseconds: Number.NaN };
    this.steps.push(step);
    const started = Date.now();
    try {
      return await work();
    } finally {
      step.milliseconds = Date.now() - started;
    }
  }

  /** Since this object was made. */
  get total(): number {
    return Date.now() - this.started;
  }
}
