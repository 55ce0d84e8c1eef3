import { readFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { configText, readRepository } from '../../../src/model';
import { configFromText } from '../../../src/model/config-text';
import { configFromYaml } from '../../../src/model/from-yaml';
import { ProblemList } from '../../../src/core/problems';
import { MODELS, MODEL_REPO, folder, removeFolders } from '../../support/model-files';
import { chance, integer, pick, SEEDED, type Random } from '../../support/random-models';

afterAll(removeFolders);

const TOKENS = [
  ...'{ } [ ] : - " \' # &a *a !!binary | > % \\ ~ null true -1 0 1e999 99999999999999999999 0x .nan'.split(' '),
  ...'TYPE_FP32 FP32 __proto__ input output dims ensemble_scheduling step version_policy specific all'.split(' '),
  ...['platform', '- ', '<<: *a', '\t', '\n', '\0', '😀', '\ud800'],
];

/** One to four random changes: deletes, repeats or replaces characters or lines, or inserts words of both languages. */
function mutate(text: string, random: Random): string {
  const at = (length: number): number => integer(random, 0, Math.max(0, length - 1));
  const changes: ((text: string) => string)[] = [
    (s) => s.slice(0, at(s.length)),
    (s) => s.slice(at(s.length)),
    (s) => ((i) => s.slice(0, i) + s.slice(i + 1 + at(8)))(at(s.length)),
    (s) => ((i) => s.slice(0, i) + pick(random, TOKENS) + s.slice(i))(at(s.length)),
    (s) => ((i) => s.slice(0, i) + String.fromCharCode(at(0x10000)) + s.slice(i + 1))(at(s.length)),
    (s) =>
      ((lines, i) => [...lines.slice(0, i), ...lines.slice(i, i + 3), ...lines.slice(i)].join('\n'))(
        s.split('\n'),
        at(20),
      ),
    (s) => ((lines, i) => [...lines.slice(0, i), ...lines.slice(i + 1)].join('\n'))(s.split('\n'), at(20)),
    (s) => s.replace(/\d+|TYPE_\w+|\w+:/g, (word) => (chance(random, 0.05) ? pick(random, TOKENS) : word)),
  ];
  let result = text;
  for (let left = 1 + at(4); left > 0; left--) result = pick(random, changes)(result);
  return result;
}

describe('mutated configurations', () => {
  const yamls = MODELS.map((name) => readFileSync(path.join(MODEL_REPO, name, 'model.yaml'), 'utf8'));
  const texts = yamls.map((yaml) => {
    const config = configFromYaml(yaml, new ProblemList('f'));
    return configText({ ...config, name: 'm' });
  });

  it.each([
    { reader: configFromYaml, originals: yamls },
    { reader: configFromText, originals: texts },
  ])('$reader.name accepts or rejects any text, and does not throw', ({ reader, originals }) => {
    let rejected = 0;
    const property = fc.property(fc.gen(), (random) => {
      const list = new ProblemList('f');
      const config = reader(mutate(pick(random, originals), random), list);
      if (config === undefined) {
        expect(list.problems).not.toHaveLength(0);
        rejected++;
      } else if (list.problems.length === 0) {
        const again = new ProblemList('f');
        expect(configFromText(configText(config), again)).toEqual(config);
        expect(again.problems).toEqual([]);
      }
    });
    fc.assert(property, { ...SEEDED, numRuns: 1000 });
    // If all mutations were valid, or all were broken, they would test nothing.
    expect(rejected).toBeGreaterThan(100);
    expect(rejected).toBeLessThan(980);
  });

  it('the rules accept or reject any readable configuration, and do not throw', async () => {
    const property = fc.asyncProperty(fc.gen(), fc.boolean(), async (random, artifacts) => {
      const files: Record<string, string> = {};
      for (const [index, name] of MODELS.entries()) {
        files[`${name}/model.yaml`] = mutate(yamls[index] ?? '', random);
        files[`${name}-text/config.pbtxt`] = mutate(texts[index] ?? '', random);
      }
      const { models, problems } = await readRepository(folder(files), { artifacts });
      expect(models.length + problems.length).toBeGreaterThan(0);
    });
    await fc.assert(property, { ...SEEDED, numRuns: 20 });
  });
});
