import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { paths } from '../../src/core/paths';
import { ownModels } from '../../tools/shipped-models';
import { fences } from '../support/markdown';

/** Our Markdown pages, from the top of the package; not those beside models of the user's own. */
const PAGES = pagesIn('.', /^(\.|(node_modules|build|dist)$)/).filter(
  (page) => !ownModels().some((name) => page.startsWith(`model-repo/${name}/`)),
);

function pagesIn(folder: string, leftOut: RegExp): string[] {
  return readdirSync(join(paths.root, folder), { withFileTypes: true })
    .filter(({ name }) => !leftOut.test(name))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return pagesIn(path, leftOut);
      return entry.name.endsWith('.md') ? [path] : [];
    });
}

const read = (page: string): string => readFileSync(join(paths.root, page), 'utf8');
const withoutFences = (markdown: string): string => markdown.replace(/^```[^]*?^```$/gm, '');

/** What a link may name in a page, as GitHub makes it of the headings. */
function anchors(page: string): string[] {
  const headings = withoutFences(read(page)).matchAll(/^#+ (.+)$/gm);
  return [...headings].map(([, text = '']) =>
    text
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

/** Targets of links and pictures that are not on the web. */
const links = (page: string): string[] =>
  [...withoutFences(read(page)).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target = '']) => target)
    .filter((target) => !/^[a-z]+:/.test(target));

/** Files and folders of this package that a page names as code: `src/x.ts`, `infra/{a,b}.ts`, `test/unit/*`. */
const named = (page: string): string[] =>
  [...withoutFences(read(page)).matchAll(/`((?:\.github|docs|infra|model-repo|policy|scripts|test)\/[^`\s]*)`/g)]
    .map(([, path = '']) => path)
    // Words in capitals stand for something of the reader's.
    .filter((path) => !/(^|\/)[A-Z]{3,}(\/|\.|$)/.test(path) && !isTracedArtifact(path))
    .flatMap(alternatives);

/** What `npm run trace` makes is not in git. */
const isTracedArtifact = (path: string): boolean => /^model-repo\/[^/]+\/\d+\//.test(path);

/** `a/{b,c}.ts` -> `a/b.ts`, `a/c.ts` */
function alternatives(path: string): string[] {
  const [whole = '', inside = ''] = /\{([^}]*)\}/.exec(path) ?? [];
  return whole === '' ? [path] : inside.split(',').flatMap((word) => alternatives(path.replace(whole, word)));
}

/** Whether a file or folder is there; `*` is any part of a name. */
function isThere(path: string): boolean {
  if (!path.includes('*')) return existsSync(join(paths.root, path));
  const folder = dirname(path);
  const name = new RegExp(`^${relative(folder, path).replaceAll('.', '\\.').replaceAll('*', '.*')}$`);
  return existsSync(join(paths.root, folder)) && readdirSync(join(paths.root, folder)).some((one) => name.test(one));
}

describe.each(PAGES)('%s', (page) => {
  test('every link leads to a file and a heading in the file', () => {
    const broken = links(page).filter((target) => {
      const [path = '', anchor = ''] = target.split('#');
      const file = path === '' ? page : join(dirname(page), path);
      if (!existsSync(join(paths.root, file))) return true;
      return anchor !== '' && (statSync(join(paths.root, file)).isDirectory() || !anchors(file).includes(anchor));
    });
    expect(broken).toEqual([]);
  });

  test('every file that the page names exists', () => {
    const made = fences(read(page)).map(({ note }) => note);
    expect(named(page).filter((path) => !made.includes(path) && !isThere(path))).toEqual([]);
  });

  test('every command that the page names is in package.json', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const commands = [...read(page).matchAll(/npm run ([a-z][a-z0-9:-]*)/g)].map(([, name = '']) => name);
    expect(commands.filter((name) => !(name in scripts))).toEqual([]);
  });
});
