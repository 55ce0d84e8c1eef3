import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { join, sep } from 'node:path';

/** Makes stack traces name the TypeScript files of a bundle. Source maps are read when a stack trace is printed. */
export function nameSources(root, folder) {
  const maps = new Map();
  const mapOf = (path) => {
    if (!maps.has(path)) maps.set(path, readMap(`${path}.map`));
    return maps.get(path);
  };
  const rename = (place, path, line, column) => {
    const origin = mapOf(path)?.findEntry(Number(line) - 1, Number(column) - 1);
    if (origin?.originalSource === undefined) return place;
    return `${join(root, origin.originalSource)}:${origin.originalLine + 1}:${origin.originalColumn + 1}`;
  };
  // Capture groups: file, line, column.
  const place = new RegExp(`(${escape(folder + sep)}[^:()]+):(\\d+):(\\d+)`, 'g');
  Error.prepareStackTrace = (error, frames) =>
    [describe(error), ...frames.map((frame) => `    at ${String(frame).replace(place, rename)}`)].join('\n');
}

function readMap(path) {
  try {
    return new SourceMap(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    return undefined; // Without a source map, the stack trace names lines of the bundle.
  }
}

function describe(error) {
  try {
    return String(error);
  } catch {
    return 'Error';
  }
}

const escape = (text) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
