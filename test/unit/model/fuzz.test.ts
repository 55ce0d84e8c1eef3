import { readFileSync } from 'node:fs';
import path from 'node:path';
import { configText, readRepository } from '../../../src/model';
import { configFromText } from '../../../src/model/config-text';
import { configFromYaml } from '../../../src/model/from-yaml';
import { ProblemList } from '../../../src/core/problems';
import { MODELS, MODEL_REPO, folder, removeFolders } from '../../support/model-files';
import { SeededRandom, SOAK_SEED } from '../../support/soak';

afterAll(removeFolders);

const TOKENS = [
  ...'{ } [ ] : - " \' # &a *a !!binary | > % \\ ~ null true -1 0 1e999 99999999999999999999 0x .nan'.split(' '),
  ...'TYPE_FP32 FP32 __proto__ input output dims ensemble_scheduling step version_policy specific all'.split(' '),
  ...['platform', '- ', '<<: *a', '\t', '\n', '\0', '😀', '\ud800'],
];

/** One to four random changes: deletes, repeats or replaces characters or lines, or inserts words of both languages. */
function mutate(text: string, random: SeededRandom): string {
  const at = (length: number): number => random.integer(0, Math.max(0, length - 1));
  const changes: ((text: string) => string)[] = [
    (s) => s.slice(0, at(s.length)),
    (s) => s.slice(at(s.length)),
    (s) => ((i) => s.slice(0, i) + s.slice(i + 1 + at(8)))(at(s.length)),
    (s) => ((i) => s.slice(0, i) + random.pick(TOKENS) + s.slice(i))(at(s.length)),
    (s) => ((i) => s.slice(0, i) + String.fromCharCode(at(0x10000)) + s.slice(i + 1))(at(s.length)),
    (s) =>
      ((lines, i) => [...lines.slice(0, i), ...lines.slice(i, i + 3), ...lines.slice(i)].join('\n'))(
        s.split('\n'),
        at(20),
      ),
    (s) => ((lines, i) => [...lines.slice(0, i), ...lines.slice(i + 1)].join('\n'))(s.split('\n'), at(20)),
    (s) => s.replace(/\d+|TYPE_\w+|\w+:/g, (word) => (random.chance(0.05) ? random.pick(TOKENS) : word)),
  ];
  let result = text;
  for (let left = 1 + at(4); left > 0; left--) result = random.pick(changes)(result);
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
    const random = new SeededRandom(SOAK_SEED);
    let rejected = 0;
    for (let run = 0; run < 1000; run++) {
      const text = mutate(random.pick(originals), random);
      const list = new ProblemList('f');
      const config = reader(text, list);
      if (list.problems.length > 0) rejected++;
      else {
        const again = new ProblemList('f');
        // Restored from its text. The comparison has what is needed to repeat it.
        const restored = configFromText(configText(config as NonNullable<typeof config>), again);
        expect([text, restored, again.problems]).toEqual([text, config, []]);
      }
    }
    // If all mutations were valid, or all were broken, they would test nothing.
    expect(rejected).toBeGreaterThan(100);
    expect(rejected).toBeLessThan(980);
  });

  it('the rules accept or reject any readable configuration, and do not throw', async () => {
    const random = new SeededRandom(SOAK_SEED);
    for (const artifacts of Array.from({ length: 20 }, (_, run) => run % 2 === 0)) {
      const files: Record<string, string> = {};
      for (const [index, name] of MODELS.entries()) {
        files[`${name}/model.yaml`] = mutate(yamls[index] ?? '', random);
        files[`${name}-text/config.pbtxt`] = mutate(texts[index] ?? '', random);
      }
      const { models, problems } = await readRepository(folder(files), { artifacts });
      expect(models.length + problems.length).toBeGreaterThan(0);
    }
  });
});
