import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findings } from '../../../policy/rule';
import { rules } from '../../../policy/rules';
import { bucketCases } from './cases/buckets';
import type { Cases } from './cases/case';
import { clusterCases } from './cases/clusters';
import { iamCases } from './cases/iam';
import { machineCases } from './cases/machines';
import { networkCases } from './cases/networks';
import { podCases } from './cases/pods';
import { workloadCases } from './cases/workloads';

const cases: Cases = {
  ...bucketCases,
  ...iamCases,
  ...machineCases,
  ...clusterCases,
  ...networkCases,
  ...podCases,
  ...workloadCases,
};

describe('policy pack', () => {
  test('each rule has cases that pass and cases that fail, and each case a rule', () => {
    expect(Object.keys(cases).sort()).toEqual(rules.map(({ name }) => name).sort());
    const lacking = Object.entries(cases).filter(
      ([, { passes, fails }]) => Object.keys(passes).length === 0 || Object.keys(fails).length === 0,
    );
    expect(lacking.map(([name]) => name)).toEqual([]);
  });

  test('names are unique and descriptions say something', () => {
    expect(new Set(rules.map(({ name }) => name)).size).toBe(rules.length);
    for (const { name, description } of rules) {
      expect(name).toMatch(/^[a-z][a-z0-9]*(-[a-z0-9]+)+$/);
      expect(description).toMatch(/^.{30,}\.$/s);
    }
  });

  test('the pack is of the version of the project', () => {
    const root = join(__dirname, '..', '..', '..');
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
    expect(readFileSync(join(root, 'policy', 'PulumiPolicy.yaml'), 'utf8')).toContain(`\nversion: ${version}\n`);
  });
});

describe.each(rules.map((rule) => [rule.name, rule] as const))('%s', (name, rule) => {
  const { passes, fails } = cases[name] ?? { passes: {}, fails: {} };

  test.each(Object.entries(passes))('lets pass: %s', (_, stack) => {
    expect(findings(rule, stack)).toEqual([]);
  });

  test.each(Object.entries(fails))('refuses: %s', (_, { stack, says }) => {
    expect(says).not.toHaveLength(0);
    expect(findings(rule, stack)).toEqual(says);
  });
});
