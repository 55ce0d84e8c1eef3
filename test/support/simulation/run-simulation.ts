import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { build, type Plugin } from 'esbuild';
import { paths } from '../../../src/core/paths';
import type { SimulationReport, SimulationRequest } from './main';

const FOLDER = 'test/support/simulation';
const BUILTINS = {
  'node:crypto': 'crypto',
  'node:fs': 'fs',
  'node:fs/promises': 'fs-promises',
  'node:http': 'http',
  'node:perf_hooks': 'perf-hooks',
  'node:timers/promises': 'timers-promises',
};

/** A change of the product that the simulation must find: the text of one file is replaced. */
export interface Mutant {
  file: string;
  replace: readonly (readonly [text: string, by: string])[];
}

/** Builds the simulation as one program, with the product's code as it is or with a mutant of it. */
export async function buildSimulation(outfile: string, mutant?: Mutant): Promise<void> {
  const alias = Object.fromEntries(
    Object.entries(BUILTINS).map(([name, file]) => [name, join(paths.root, FOLDER, 'builtins', `${file}.ts`)]),
  );
  await build({
    entryPoints: [join(paths.root, FOLDER, 'main.ts')],
    bundle: true,
    platform: 'node',
    target: 'node20',
    alias,
    define: { __dirname: JSON.stringify(paths.root) },
    logLevel: 'error',
    plugins: mutant === undefined ? [] : [mutate(mutant)],
    outfile,
  });
}

const mutate = ({ file, replace }: Mutant): Plugin => ({
  name: 'mutate',
  setup: (building): void => {
    const path = resolve(paths.root, file);
    building.onLoad({ filter: new RegExp(`${file.replace(/[.]/g, '\\.')}$`) }, ({ path: loaded }) => {
      if (loaded !== path) return undefined;
      let contents = readFileSync(path, 'utf8');
      for (const [text, by] of replace) {
        if (!contents.includes(text)) throw new Error(`${file} does not have the text ${text}`);
        contents = contents.replace(text, () => by);
      }
      return { contents, loader: 'ts' };
    });
  },
});

/** Runs a built simulation in a process of its own. */
export async function runSimulation(program: string, request: SimulationRequest): Promise<SimulationReport> {
  const child = spawn(process.execPath, ['--max-semi-space-size=32', program, JSON.stringify(request)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let errors = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const code = await new Promise((ended) => child.on('close', ended));
  if (code !== 0) throw new Error(`the simulation ended with code ${String(code)}:\n${errors}`);
  return JSON.parse(output) as SimulationReport;
}
