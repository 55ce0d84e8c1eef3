import { isSelected, reloadModel, type ReloadOptions } from './reload';
import type { SmokeTestResult } from './smoke-test';

/**
 * Reloads models whose files changed, one at a time, and then the ensembles that failed because of them.
 */
export class Reloads {
  /** Rejects if a reload fails for a reason that no model caused. */
  readonly failed: Promise<never>;
  private fail: (error: unknown) => void = () => undefined;
  private readonly queue: string[] = [];
  private work: Promise<void> | undefined;

  /**
   * @param answers answers of the models that are already served
   * @param show called after a model was reloaded
   */
  constructor(
    private readonly options: Omit<ReloadOptions, 'isWaitedFor' | 'before'>,
    private answers: readonly SmokeTestResult[],
    private readonly show: (answers: readonly SmokeTestResult[]) => Promise<void>,
  ) {
    this.failed = new Promise((_, reject) => (this.fail = reject));
    this.failed.catch(() => undefined);
  }

  /** @param models names of the models whose files changed */
  add(models: readonly string[]): void {
    const { selection, stack } = this.options;
    this.enqueue(models.filter((name) => isSelected(selection, name, stack)));
    this.work ??= this.run()
      .catch((error: unknown) => this.fail(error))
      .finally(() => (this.work = undefined));
  }

  /** Settles when no reload is running. */
  async idle(): Promise<void> {
    await this.work;
  }

  private enqueue(names: readonly string[]): void {
    this.queue.push(...names.filter((name) => !this.queue.includes(name)));
  }

  private async run(): Promise<void> {
    for (let name = this.queue.shift(); name !== undefined; name = this.queue.shift()) {
      const isWaitedFor = (): boolean => this.queue.length > 0;
      const reloaded = await reloadModel(name, { ...this.options, before: this.answers, isWaitedFor });
      if (reloaded !== undefined) {
        const { models, answers } = reloaded;
        const waiting = this.options.stack.failed.filter(({ needs }) => needs !== undefined && models.includes(needs));
        this.enqueue(waiting.map((failed) => failed.name));
        const asked = new Set([...models, ...answers.map(({ model }) => model)]);
        this.answers = [...this.answers.filter(({ model }) => !asked.has(model)), ...answers];
      }
      await this.show(this.answers);
    }
  }
}
