import { basename, dirname } from 'node:path';
import { shellWord } from './format';
import { paths } from './paths';

/** A command of this package for a message, ready to copy: `npm run trace -- --models resnet`, or with npx. */
export function nextCommand(script: string, ...words: readonly string[]): string {
  const start = paths.isInstalled
    ? ['npx triton-serving', script]
    : ['npm run', script, ...(words.length === 0 ? [] : ['--'])];
  return [...start, ...words.map(shellWord)].join(' ');
}

/**
 * The flag that names a model repository by its absolute path; empty for the repository of this package, which is the
 * default.
 */
export const repoFlag = (repository: string): string[] =>
  repository === paths.modelRepository ? [] : ['--repo', repository];

/**
 * The command that traces a model.
 * @param folder of the model
 */
export const traceCommand = (folder: string, ...words: readonly string[]): string =>
  nextCommand('trace', '--models', basename(folder), ...repoFlag(dirname(folder)), ...words);
