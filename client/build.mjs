// Builds the contents of `npm pack ./client`: src/triton/index.ts as one file that needs only Node, and its types.
import { copyFileSync, mkdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installedModules } from '../src/launch/modules.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(here);
const library = join(root, 'src');
const entry = join(library, 'triton', 'index.ts');
const dist = join(here, 'dist');

await installedModules(root);
rmSync(dist, { recursive: true, force: true });
mkdirSync(dist);
// npm includes the licence only if it lies beside package.json.
copyFileSync(join(root, 'LICENSE'), join(here, 'LICENSE'));
await makeProgram();
await makeTypes();
await makeApiPage();

/** Writes CommonJS, which both `import` and `require` can load. esbuild appends the licences of bundled packages. */
async function makeProgram() {
  const { build } = await import('esbuild');
  await build({
    entryPoints: [entry],
    outfile: join(dist, 'client.cjs'),
    bundle: true,
    platform: 'node',
    target: 'node20',
    logLevel: 'warning',
  });
}

async function makeTypes() {
  const { default: ts } = await import('typescript');
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const program = ts.createProgram([entry], {
    ...options,
    types: ['node'],
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    rootDir: library,
    outDir: join(dist, 'types'),
  });
  const problems = [...ts.getPreEmitDiagnostics(program), ...program.emit().diagnostics];
  if (problems.length === 0) return;
  const host = { getCanonicalFileName: (name) => name, getCurrentDirectory: () => root, getNewLine: () => '\n' };
  throw new Error(ts.formatDiagnostics(problems, host));
}

/** Writes one page with every class, function and type, from the docstrings. */
async function makeApiPage() {
  const { Application } = await import('typedoc');
  const application = await Application.bootstrapWithPlugins({
    plugin: ['typedoc-plugin-markdown'],
    entryPoints: [entry],
    tsconfig: join(root, 'tsconfig.json'),
    name: '@triton-serving/client',
    readme: 'none',
    out: join(dist, 'api'),
    outputFileStrategy: 'modules',
    parametersFormat: 'table',
    interfacePropertiesFormat: 'table',
    typeDeclarationFormat: 'table',
    hideBreadcrumbs: true,
    hidePageHeader: true,
    disableSources: true,
    // makeTypes has checked the types.
    skipErrorChecking: true,
    excludePrivate: true,
    logLevel: 'Error',
  });
  const project = await application.convert();
  if (project === undefined) throw new Error('typedoc cannot read the sources of the client');
  await application.generateOutputs(project);
}
