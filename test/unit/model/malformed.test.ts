import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { ProblemList } from '../../../src/core/problems';
import { MALFORMED, writeMalformed } from '../../support/malformed';
import { folder, removeFolders, texts } from '../../support/model-files';

afterAll(removeFolders);

const isRoot = process.getuid?.() === 0;

type Rule = (subject: { problems: ProblemList } | { model: { problems: ProblemList } }) => void;
const rules = new Set<string>();
/** Rules that found a problem in any of the cases. */
const failed = new Set<string>();

/** The rule, which notes under this name that it found something. */
function noting(name: string, rule: Rule): Rule {
  rules.add(name);
  return (subject) => {
    const { problems } = 'model' in subject ? subject.model : subject;
    const before = problems.problems.length;
    rule(subject);
    if (problems.problems.length > before) failed.add(name);
  };
}

const RULES = join(__dirname, '../../../src/model/rules');
for (const file of readdirSync(RULES)) {
  jest.doMock(join(RULES, file), () => {
    const actual = jest.requireActual<Record<string, unknown>>(join(RULES, file));
    const isRules = (value: unknown): value is Rule[] =>
      Array.isArray(value) && value.every((one) => typeof one === 'function');
    const noted = Object.entries(actual).map(([key, value]): [string, unknown] => [
      key,
      isRules(value) ? value.map((rule) => noting(`${file}: ${rule.name}`, rule)) : value,
    ]);
    return Object.fromEntries(noted);
  });
}
// The imports above loaded the rules themselves.
jest.resetModules();
const { readRepository } = jest.requireActual<typeof import('../../../src/model')>('../../../src/model');

describe('readRepository with malformed repositories', () => {
  it('has at least 300 cases with different names', () => {
    const names = MALFORMED.map(({ name }) => name);
    expect(names.length).toBeGreaterThanOrEqual(300);
    expect(new Set(names).size).toBe(names.length);
  });

  it.each(MALFORMED.filter(({ notForRoot }) => !(isRoot && notForRoot)))(
    'reports exactly the problems of $name',
    async ({ files, problems, triton }) => {
      const root = folder({});
      writeMalformed(root, files);
      const reported = texts((await readRepository(root, { triton })).problems, root);
      expect(reported).toEqual(
        problems.map((problem): unknown => (typeof problem === 'string' ? problem : expect.stringMatching(problem))),
      );
      // A problem fits on the screen of a terminal.
      for (const one of reported) expect(one.length).toBeLessThan(4000);
    },
  );

  // Last, because it needs what the cases found.
  it('has a failing case for each rule', () => {
    expect(rules.size).toBeGreaterThanOrEqual(40);
    expect([...rules].filter((name) => !failed.has(name))).toEqual([]);
  });
});
