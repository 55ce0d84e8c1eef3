import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CORE_SCHEMA, load, mergeTag } from 'js-yaml';
import { paths } from '../../src/core/paths';

export interface Instruction {
  name: string;
  value: string;
}

/** The instructions of one stage of the Dockerfile, beginning with FROM. */
export function readStage(name: string): Instruction[] {
  const instructions = readText('Dockerfile')
    .split('\n')
    .filter((line) => !/^\s*(#|$)/.test(line))
    .join('\n')
    .replace(/\\\n\s*/g, '')
    .split('\n')
    .map((line) => {
      const [, instruction = '', value = ''] = /^(\S+)\s+(.*)$/.exec(line) ?? [];
      return { name: instruction, value };
    });
  const start = instructions.findIndex((one) => one.name === 'FROM' && one.value.endsWith(` AS ${name}`));
  if (start === -1) throw new Error(`the Dockerfile has no stage ${name}`);
  const end = instructions.findIndex((one, index) => index > start && one.name === 'FROM');
  return instructions.slice(start, end === -1 ? undefined : end);
}

/** What of compose.yaml the tests look at, with its merge keys (`<<`) resolved. */
export interface Service {
  build: { context: string; target: string };
  image: string;
  profiles?: string[];
  ports?: string[];
  entrypoint?: string[];
  command: string[];
  environment: Record<string, string | null>;
  restart?: string;
  healthcheck?: { test?: string[] };
}

export function readCompose(): { services: Record<string, Service> } {
  const schema = CORE_SCHEMA.withTags(mergeTag);
  return load(readText('compose.yaml'), { schema }) as { services: Record<string, Service> };
}

export function readText(file: string): string {
  return readFileSync(join(paths.root, file), 'utf8');
}
