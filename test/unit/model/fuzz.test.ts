import { readFileSync } from 'node:fs';
import path from 'node:path';
import { configText, readRepository } from '../../../src/model';
import { configFromText } from '../../../src/model/config-text';
import { configFromYaml } from '../../../src/model/from-yaml';
import { ProblemList } from '../../../src/core/problems';
import { MODELS, MODEL_REPO, folder, randomNumbers, removeFolders } from '../../support/model-files';

afterAll(removeFolders);

const TOKENS = [
  ...[
    '{',
    '}',
    '[',
    ']',
    ':',
    '- ',
    '"',
    "'",
    '#',
    '&a',
    '*a',
    '<<: *a',
    '!!binary',
    '|',
    '>',
    '%',
    '\t',
    '\n',
    '\0',
    '\\',
  ],
  ...['~', 'null', 'true', '-1', '0', '1e999', '99999999999999999999', '0x', '.nan', 'TYPE_FP32', 'FP32', '__proto__'],
  ...[
    'input',
    'output',
    'dims',
    'ensemble_scheduling',
    'step',
    'version_policy',
    'specific',
    'all',
    'platform',
    '😀',
    '\ud800',
  ],
];

/** One to four random changes: characters or lines gone, doubled or swapped, and words of both languages put in. */
function mutate(text: string, random: () => number): string {
  const at = (length: number): number => Math.floor(random() * length);
  const changes: ((text: string) => string)[] = [
    (s) => s.slice(0, at(s.length)),
    (s) => s.slice(at(s.length)),
    (s) => ((i) => s.slice(0, i) + s.slice(i + 1 + at(8)))(at(s.length)),
    (s) => ((i) => s.slice(0, i) + (TOKENS[at(TOKENS.length)] ?? '') + s.slice(i))(at(s.length)),
    (s) => ((i) => s.slice(0, i) + String.fromCharCode(at(0x10000)) + s.slice(i + 1))(at(s.length)),
    (s) =>
      ((lines, i) => [...lines.slice(0, i), ...lines.slice(i, i + 3), ...lines.slice(i)].join('\n'))(
        s.split('\n'),
        at(20),
      ),
    (s) => ((lines, i) => [...lines.slice(0, i), ...lines.slice(i + 1)].join('\n'))(s.split('\n'), at(20)),
    (s) => s.replace(/\d+|TYPE_\w+|\w+:/g, (word) => (random() < 0.05 ? (TOKENS[at(TOKENS.length)] ?? '') : word)),
  ];
  let result = text;
  for (let left = 1 + at(4); left > 0; left--) result = changes[at(changes.length)]?.(result) ?? result;
  return result;
}

describe('whatever the text', () => {
  const yamls = MODELS.map((name) => readFileSync(path.join(MODEL_REPO, name, 'model.yaml'), 'utf8'));
  const texts = yamls.map((yaml) => {
    const config = configFromYaml(yaml, new ProblemList('f'));
    return configText({ ...config, name: 'm' });
  });

  it.each<[file: string, seeds: string[], parse: typeof configFromYaml]>([
    ['model.yaml', yamls, configFromYaml],
    ['config.pbtxt', texts, configFromText],
  ])('%s is read or refused, and never stops us', (_file, seeds, parse) => {
    const random = randomNumbers(7);
    let refused = 0;
    for (let round = 0; round < 1000; round++) {
      const text = mutate(seeds[round % seeds.length] ?? '', random);
      const list = new ProblemList('f');
      const config = parse(text, list);
      if (config === undefined) {
        expect(list.problems).not.toHaveLength(0);
        refused++;
      } else if (list.problems.length === 0) {
        const again = new ProblemList('f');
        expect(configFromText(configText(config), again)).toEqual(config);
        expect(again.problems).toEqual([]);
      }
    }
    // Mutations that none survives, or that change nothing, would test nothing.
    expect(refused).toBeGreaterThan(100);
    expect(refused).toBeLessThan(980);
  });

  it('the rules take any configuration that can be read', async () => {
    const random = randomNumbers(11);
    for (let round = 0; round < 20; round++) {
      const files: Record<string, string> = {};
      for (const [index, name] of MODELS.entries()) {
        files[`${name}/model.yaml`] = mutate(yamls[index] ?? '', random);
        files[`${name}-text/config.pbtxt`] = mutate(texts[index] ?? '', random);
      }
      const { models, problems } = await readRepository(folder(files), { artifacts: round % 2 === 0 });
      expect(models.length + problems.length).toBeGreaterThan(0);
    }
  });
});
