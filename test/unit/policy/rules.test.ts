import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findings } from '../../../policy/rule';
import { rules } from '../../../policy/rules';
import { UNKNOWN, Value } from '../../../policy/value';
import { bucketCases } from './cases/buckets';
import type { Cases } from './cases/case';
import { clusterCases } from './cases/clusters';
import { iamCases } from './cases/iam';
import { machineCases } from './cases/machines';
import { networkCases } from './cases/networks';
import { podCases } from './cases/pods';
import { stackCases } from './cases/stacks';
import { workloadCases } from './cases/workloads';

const ROOT = join(__dirname, '..', '..', '..');

/** Comes before the table of rules in docs/policy.md; UPDATE_DOCS=1 updates the table. */
const TABLE = '<!-- the rules; made with UPDATE_DOCS=1 npx jest unit/policy -->';

const cases: Cases = {
  ...bucketCases,
  ...iamCases,
  ...machineCases,
  ...clusterCases,
  ...networkCases,
  ...podCases,
  ...workloadCases,
  ...stackCases,
};

/** By these a rule finds what belongs together, or what is excepted; programs know them, or wire them. */
const NAMES = new Set(['bucket', 'id', 'name', 'namespace', 'targetBucket', 'vpcId', 'metadata', 'provisioner']);

/** The ways to all values in a value, but for names. */
function placesIn(value: unknown): string[][] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value)
    .filter(([key]) => !NAMES.has(key))
    .flatMap(([key, inner]) => [[key], ...placesIn(inner).map((path) => [key, ...path])]);
}

/** A copy in which what lies at the end of the way is unknown. */
function hiding(value: unknown, [key = '', ...rest]: readonly string[]): unknown {
  const copy = (Array.isArray(value) ? [...(value as unknown[])] : { ...(value as object) }) as Record<string, unknown>;
  copy[key] = rest.length === 0 ? UNKNOWN : hiding(copy[key], rest);
  return copy;
}

describe('policy pack', () => {
  test('each rule has cases that pass and cases that fail, and each case belongs to a rule', () => {
    expect(Object.keys(cases).sort()).toEqual(rules.map(({ name }) => name).sort());
    const lacking = Object.entries(cases).filter(
      ([, { passes, fails }]) => Object.keys(passes).length === 0 || Object.keys(fails).length === 0,
    );
    expect(lacking.map(([name]) => name)).toEqual([]);
  });

  test('names are unique and descriptions are sentences', () => {
    expect(new Set(rules.map(({ name }) => name)).size).toBe(rules.length);
    for (const { name, description } of rules) {
      expect(name).toMatch(/^[a-z][a-z0-9]*(-[a-z0-9]+)+$/);
      expect(description).toMatch(/^.{30,}\.$/s);
    }
  });

  test('the documentation lists each rule', () => {
    const file = join(ROOT, 'docs', 'policy.md');
    const text = readFileSync(file, 'utf8');
    const rows = rules.map(({ name, description }) => `| \`${name}\` | ${description} |`);
    if (process.env['UPDATE_DOCS'] === '1') {
      const [before = '', after = ''] = text.split(TABLE);
      const rest = after.replace(/^\s*(\|.*\n)*/, '');
      writeFileSync(
        file,
        [before, TABLE, '\n\n| rule | demands |\n| --- | --- |\n', rows.join('\n'), '\n\n', rest].join(''),
      );
    }
    const documented = readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('| `'))
      .map((line) => line.replace(/ +/g, ' '));
    expect(documented).toEqual(rows);
  });

  test('the pack has the version of the project', () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    expect(readFileSync(join(ROOT, 'policy', 'PulumiPolicy.yaml'), 'utf8')).toContain(`\nversion: ${version}\n`);
  });
});

describe.each(rules.map((rule) => [rule.name, rule] as const))('%s', (name, rule) => {
  const { passes, fails } = cases[name] ?? { passes: {}, fails: {} };

  test.each(Object.entries(passes))('accepts: %s', (_, stack) => {
    expect(findings(rule, stack)).toEqual([]);
  });

  test.each(Object.entries(passes))('accepts unknown properties: %s', (_, stack) => {
    const stopped = stack.flatMap((resource, index) =>
      placesIn(resource.props.raw).flatMap((path) => {
        const hidden = { ...resource, props: new Value('', hiding(resource.props.raw, path)) };
        return findings(rule, stack.with(index, hidden)).map((finding) => `${path.join('.')} unknown: ${finding}`);
      }),
    );
    expect(stopped).toEqual([]);
  });

  test.each(Object.entries(fails))('refuses: %s', (_, { stack, says }) => {
    expect(says).not.toHaveLength(0);
    expect(findings(rule, stack)).toEqual([says].flat());
  });
});
