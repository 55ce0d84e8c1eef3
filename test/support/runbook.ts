import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../src/core/paths';

export const RUNBOOK = join(paths.root, 'docs', 'runbook.md');

/** The section of an alert. */
export function section(alert: string): string {
  const [, found = ''] = readFileSync(RUNBOOK, 'utf8').split(`\n## ${alert}\n`);
  return found.split('\n## ')[0] ?? '';
}

/** The commands with which a section begins. */
export const firstCommands = (alert: string): string[] =>
  (/^```sh\n([^]*?)\n```$/m.exec(section(alert))?.[1] ?? '').split('\n');
