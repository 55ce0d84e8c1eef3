import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CommandError, exec } from '../../src/core/exec';
import { Scratch } from '../support/temp-dir';
import { ensureTlc } from '../../tools/toolchain/tlc';

/** A value of a constant: a set is a Set, a sequence an array, a record or function of names an object. */
export type Value =
  number | boolean | string | readonly Value[] | ReadonlySet<Value> | { readonly [name: string]: Value };

/** One run of TLC. */
export interface Model {
  /** A file of this folder, without `.tla`. */
  module: string;
  constants: Readonly<Record<string, Value>>;
  /** Constants that equal nothing but themselves. */
  modelValues?: readonly string[];
  /** The formula of the module that describes its behaviour. Default: Spec. */
  behaviour?: string;
  /** Formulas that must hold in every state. */
  invariants?: readonly string[];
  /** Formulas about steps, or about what happens in the end. */
  properties?: readonly string[];
  /** The operator that gives the part of a state that counts. Default: the whole state. */
  view?: string;
}

export interface Verdict {
  /** The formula that does not hold; undefined if all hold in every state. */
  violated: string | undefined;
  /** Number of distinct states that were found. */
  states: number;
  /** TLC's output: with a violation, the steps that lead to it. */
  output: string;
}

const HEAP = '-Xmx3g';

/**
 * Explores all states of a model with TLC, or ends at the first violation.
 * @throws CommandError if TLC cannot evaluate the model
 */
export async function explore(model: Model): Promise<Verdict> {
  const jar = await ensureTlc();
  const scratch = new Scratch();
  try {
    const directory = scratch.directory;
    const constants = Object.entries(model.constants);
    writeFileSync(
      join(directory, 'Run.tla'),
      [
        `---- MODULE Run ----\nEXTENDS ${model.module}`,
        ...constants.map(([name, value]) => `the${name} == ${toTla(value)}`),
        '====\n',
      ].join('\n'),
    );
    writeFileSync(
      join(directory, 'Run.cfg'),
      [
        `SPECIFICATION ${model.behaviour ?? 'Spec'}`,
        'CONSTANTS',
        ...constants.map(([name]) => `  ${name} <- the${name}`),
        ...(model.modelValues ?? []).map((name) => `  ${name} = ${name}`),
        ...(model.view === undefined ? [] : [`VIEW ${model.view}`]),
        ...(model.invariants ?? []).map((name) => `INVARIANT ${name}`),
        ...(model.properties ?? []).map((name) => `PROPERTY ${name}`),
        '',
      ].join('\n'),
    );
    return readVerdict(await runTlc(jar, directory), model);
  } finally {
    await scratch.clean();
  }
}

async function runTlc(jar: string, directory: string): Promise<string> {
  const java = ['-XX:+UseParallelGC', HEAP, `-DTLA-Library=${__dirname}`, `-Djava.io.tmpdir=${directory}`];
  // A run in which nothing can happen any more is complete, not an error.
  const tlc = ['-cp', jar, 'tlc2.TLC', '-workers', 'auto', '-deadlock', '-metadir', join(directory, 'states'), 'Run'];
  try {
    return (await exec('java', [...java, ...tlc], { cwd: directory })).stdout;
  } catch (error) {
    // The exit code of a violation.
    if (error instanceof CommandError && (error.exitCode === 12 || error.exitCode === 13)) return error.output.stdout;
    throw error;
  }
}

function readVerdict(output: string, model: Model): Verdict {
  const states = [...output.matchAll(/([\d,]+) distinct states found/g)].at(-1)?.[1];
  if (states === undefined) throw new Error(`TLC counted no states:\n${output}`);
  const named = /(?:Invariant|property) (\w+) is violated/.exec(output)?.[1];
  // TLC does not name the formula about the end, so that a model has at most one.
  const violated = named ?? (output.includes('Temporal properties were violated') ? model.properties?.[0] : undefined);
  if (violated === undefined && !output.includes('No error has been found')) {
    throw new Error(`TLC did not end:\n${output}`);
  }
  return { violated, states: Number(states.replaceAll(',', '')), output };
}

function toTla(value: Value): string {
  if (typeof value === 'string') return `"${value}"`;
  if (typeof value === 'boolean') return value ? 'TRUE' : 'FALSE';
  if (typeof value === 'number') return String(value);
  if (value instanceof Set) return `{${[...(value as ReadonlySet<Value>)].map(toTla).join(', ')}}`;
  if (Array.isArray(value)) return `<<${(value as readonly Value[]).map(toTla).join(', ')}>>`;
  const fields = Object.entries(value as Record<string, Value>).map(([name, field]) => `${name} |-> ${toTla(field)}`);
  return fields.length === 0 ? '<<>>' : `[${fields.join(', ')}]`;
}

/** The guards that a module asks for with On("NAME"). */
export function guardsOf(module: string): string[] {
  const text = readFileSync(join(__dirname, `${module}.tla`), 'utf8');
  const names = [...text.matchAll(/On\("(\w+)"\)/g)].map(([, name]) => name as string);
  return [...new Set(names)].sort();
}
