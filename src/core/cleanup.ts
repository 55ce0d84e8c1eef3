/** Steps that undo earlier work, in reverse order. */
export class Cleanup {
  private readonly steps: (() => Promise<void> | void)[] = [];

  defer(step: () => Promise<void> | void): void {
    this.steps.push(step);
  }

  /**
   * Runs every step, even if an earlier one fails.
   * @throws the first error
   */
  async run(): Promise<void> {
    const errors: unknown[] = [];
    for (const step of this.steps.splice(0).reverse()) {
      try {
        await step();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }
}
