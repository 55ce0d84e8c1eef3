// Runs before `npm pack`: compiles the commands for projects that install this package.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const out = join(root, 'dist');
const commands = readdirSync(join(root, 'scripts'))
  .filter((file) => file.endsWith('.ts'))
  .map((file) => basename(file, '.ts'));

/** How the commands are built. */
const BUNDLE = {
  bundle: true,
  platform: 'node',
  target: 'node20',
  // Modules that are imported by `await import()` become separate files, so that a start reads only what it needs.
  format: 'esm',
  splitting: true,
  outExtension: { '.js': '.mjs' },
  // The CommonJS version of a package would offer only its default export to `await import()`.
  mainFields: ['module', 'main'],
  // Packages that load native code or files from their own folder, or start it as a program.
  external: ['sharp', 'esbuild', '@pulumi/*'],
  logLevel: 'warning',
};

/** What ES modules lack and CommonJS packages need. */
const COMMON_JS_NAMES = [
  `import { createRequire as __createRequire } from 'node:module';`,
  `import { dirname as __dirnameOf } from 'node:path';`,
  `import { fileURLToPath as __toPath } from 'node:url';`,
  `const require = __createRequire(import.meta.url), __filename = __toPath(import.meta.url), __dirname = __dirnameOf(__filename);`,
].join(' ');

/** In the texts of the commands, `npm run NAME -- ` becomes what runs the command in a project. */
const namesNpx = {
  name: 'names-npx',
  setup: ({ onLoad }) =>
    onLoad({ filter: /\.ts$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8')
        .replace(new RegExp(`npm run (${commands.join('|')}|NAME)\\b( --(?= ))?`, 'g'), 'npx triton-serving $1')
        .replace(/(npx triton-serving \S+ \[)-- /g, '$1'),
      loader: 'ts',
    })),
};

rmSync(out, { recursive: true, force: true });
await build({
  ...BUNDLE,
  entryPoints: Object.fromEntries(commands.map((name) => [`commands/${name}`, join(root, 'scripts', `${name}.ts`)])),
  absWorkingDir: root,
  outdir: out,
  chunkNames: 'chunks/[name]-[hash]',
  banner: { js: COMMON_JS_NAMES },
  legalComments: 'linked',
  plugins: [namesNpx],
});
cpSync(join(root, 'src', 'cli', 'program.mjs'), join(out, 'triton-serving.mjs'));

writeTypes('infra/components.d.ts');
await writeArguments();
await checkAgentProgram();

/** Compiles a file of this package, and imports it. */
async function importSource(file) {
  const { outputFiles } = await build({
    ...BUNDLE,
    entryPoints: [join(root, file)],
    splitting: false,
    outdir: out,
    write: false,
  });
  const compiled = join(out, 'compiled.mjs');
  writeFileSync(compiled, `${COMMON_JS_NAMES}\n${outputFiles.find(({ path }) => path.endsWith('js')).text}`);
  return import(`${compiled}?${file}`).finally(() => rmSync(compiled));
}

/** Writes the arguments of TritonServer as interfaces, with a sentence for each, which editors show. */
async function writeArguments() {
  const { tritonServerArgs } = await importSource('tools/argument-types.ts');
  writeFileSync(join(out, 'types', 'infra', 'triton', 'args.d.ts'), tritonServerArgs());
}

/** Fails if the program of the agent is too large for a ConfigMap. */
async function checkAgentProgram() {
  const { findSizeFault } = await importSource('infra/triton/agent/program.ts');
  const fault = findSizeFault();
  if (fault !== undefined) throw new Error(fault);
}

/** Writes the type declarations of a file of this package, and of the files that they name, into dist/types. */
function writeTypes(entry) {
  const all = mkdtempSync(join(tmpdir(), 'triton-serving-types-'));
  try {
    const configuration = {
      extends: join(root, 'tsconfig.json'),
      compilerOptions: {
        ...{ declaration: true, emitDeclarationOnly: true, noEmit: false },
        ...{ outDir: all, rootDir: root, types: ['node'], typeRoots: [join(root, 'node_modules', '@types')] },
      },
      include: [],
      files: [join(root, entry.replace('.d.ts', '.ts'))],
    };
    writeFileSync(join(all, 'tsconfig.json'), JSON.stringify(configuration));
    const compiler = createRequire(import.meta.url).resolve('typescript/lib/tsc.js');
    execFileSync(process.execPath, [compiler, '--project', all], { stdio: 'inherit' });
    const named = new Set([join(all, entry)]);
    for (const path of named) {
      const text = readFileSync(path, 'utf8');
      cpSync(path, join(out, 'types', relative(all, path)));
      for (const [, from] of text.matchAll(/(?:from |import\()['"](\.[^'"]+)['"]/g)) {
        named.add(`${join(dirname(path), from)}.d.ts`);
      }
    }
  } finally {
    rmSync(all, { recursive: true, force: true });
  }
}
