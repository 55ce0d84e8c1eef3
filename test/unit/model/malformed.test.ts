import { readRepository } from '../../../scripts/lib/model';
import { MALFORMED, writeMalformed } from '../../support/malformed';
import { folder, removeFolders, texts } from './helpers';

afterAll(removeFolders);

const isRoot = process.getuid?.() === 0;

describe('what cannot be published', () => {
  it('is of many kinds', () => {
    const names = MALFORMED.map(({ name }) => name);
    expect(names.length).toBeGreaterThanOrEqual(300);
    expect(new Set(names).size).toBe(names.length);
  });

  it.each(MALFORMED.filter(({ notForRoot }) => !(isRoot && notForRoot)))(
    'is named once: $name',
    async ({ files, problem, problems = 1 }) => {
      const root = folder({});
      writeMalformed(root, files);
      const said = texts((await readRepository(root)).problems, root);
      expect(said).toContainEqual(expect.stringMatching(problem));
      expect(said).toHaveLength(problems);
      // A problem is read in a terminal: it is never longer than a screen.
      for (const one of said) expect(one.length).toBeLessThan(4000);
    },
  );
});
