import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SERVED_SETTINGS } from '../../infra/served-changes';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { describeRequests, describeSteps, isServedReplaced, type SettingChange } from './setting-changes';
import type { TestStack } from './stack';

const DOC = join(paths.root, 'docs', 'infrastructure.md');
const [BEGIN, END] = ['<!-- settings:begin -->', '<!-- settings:end -->'] as const;
const HEADER = ['settings', '`pulumi up`', 'requests meanwhile', 'what you do'];

/** A setting, and the cells of its row in docs/infrastructure.md. */
export interface Row {
  setting: string;
  /** What `pulumi up` does, what happens to requests, and what the user does. */
  cells: readonly [up: string, requests: string, advice: string];
}

/** Previews a change. Fails if it replaces or deletes what is served, and the preview does not warn of it. */
export async function tryChange(stack: TestStack, change: SettingChange): Promise<Row> {
  const { setting, values, secrets, advice = '', failure } = change;
  try {
    const { steps, warnings } = await stack.changesWith(values, secrets);
    const isWarned = warnings.some((text) => SERVED_SETTINGS.some((served) => text.startsWith(`${served} `)));
    if (isServedReplaced(steps) && !isWarned) {
      throw new Error(`the preview does not warn of ${setting}: ${describeSteps(steps)}`);
    }
    return { setting, cells: [failure ?? describeSteps(steps), describeRequests(change, steps), advice] };
  } catch (error) {
    if (!/has invalid settings|is set, but this stack applied|has no context/.test(String(error))) throw error;
    return { setting, cells: ['is refused', 'served', advice] };
  }
}

/** The rows of the page, one for each setting. */
export function readTable(): Row[] {
  const text = readFileSync(DOC, 'utf8').split(BEGIN)[1]?.split(END)[0] ?? '';
  return text
    .trim()
    .split('\n')
    .slice(2)
    .flatMap((line) => {
      const cells = line.split('|').map((cell) => cell.trim());
      const [settings = '', up = '', requests = '', advice = ''] = cells.slice(1);
      const names = [...settings.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
      return names.map((setting): Row => ({ setting, cells: [up, requests, advice] }));
    });
}

/** Writes the rows to the page. Settings with the same result share a row. */
export async function writeTable(rows: readonly Row[]): Promise<void> {
  const merged = new Map<string, string[]>();
  for (const { setting, cells } of rows) {
    const key = cells.join(' | ');
    merged.set(key, [...(merged.get(key) ?? []), `\`${setting}\``]);
  }
  const lines = [HEADER.join(' | '), HEADER.map(() => '---').join(' | ')];
  for (const [cells, settings] of merged) lines.push(`${settings.join(', ')} | ${cells}`);
  const table = lines.map((line) => `| ${line} |`).join('\n');
  const page = readFileSync(DOC, 'utf8');
  const [before = '', rest = ''] = page.split(BEGIN);
  writeFileSync(DOC, `${before}${BEGIN}\n\n${table}\n\n${END}${rest.split(END)[1] ?? ''}`);
  const prettier = join(paths.root, 'node_modules', 'prettier', 'bin', 'prettier.cjs');
  await exec(process.execPath, [prettier, '--write', DOC], { cwd: paths.root });
}
