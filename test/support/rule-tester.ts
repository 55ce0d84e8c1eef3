import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ruleGroups } from '../../infra/triton/monitoring/monitoring';
import { CommandError, exec } from '../../src/core/exec';
import { ensurePromtool } from '../../tools/toolchain/promtool';
import { settingsOf } from './series';
import { Scratch } from './temp-dir';

/** Prometheus's promtool with the rules of a server. */
export class RuleTester {
  readonly rules: string;
  private readonly scratch = new Scratch();
  private program = '';

  constructor(
    settings = settingsOf(),
    private readonly interval = '15s',
    isTested = (alert: string): boolean => alert !== '',
  ) {
    this.rules = join(this.scratch.directory, 'rules.json');
    const groups = ruleGroups(settings).map(({ rules, ...group }) => ({
      ...group,
      rules: rules.filter(({ alert }) => alert === undefined || isTested(alert as string)),
    }));
    // JSON is valid YAML.
    writeFileSync(this.rules, JSON.stringify({ groups }));
  }

  async install(): Promise<void> {
    this.program = await ensurePromtool();
  }

  clean(): Promise<void> {
    return this.scratch.clean();
  }

  run(...args: string[]): ReturnType<typeof exec> {
    return exec(this.program, args);
  }

  /** Runs `promtool test rules` on one test. @returns the failures, or an empty string */
  async check(test: object): Promise<string> {
    const file = join(this.scratch.directory, 'test.json');
    const tests = [{ interval: this.interval, ...test }];
    writeFileSync(file, JSON.stringify({ rule_files: [this.rules], evaluation_interval: this.interval, tests }));
    try {
      await this.run('test', 'rules', file);
      return '';
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      return error.output.stdout + error.output.stderr;
    }
  }
}
