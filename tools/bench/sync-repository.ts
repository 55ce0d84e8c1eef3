import { createHash, randomFillSync } from 'node:crypto';
import { closeSync, mkdirSync, openSync, utimesSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';

/** A model repository whose large files are incompressible and all different. */
export interface RepositoryShape {
  models: number;
  /** Number of files of `partBytes` in the whole repository. Each model has three small ones more. */
  parts: number;
  partBytes: number;
}

const CHUNK_BYTES = 1 << 20;
/** Modification time of all files, older than any upload. */
const MADE = new Date('2024-01-01T00:00:00Z');

/** Writes the repository: MODEL/config.pbtxt, MODEL/labels.txt, MODEL/1/model.py and MODEL/1/part-NNNNN.bin. */
export function makeRepository(directory: string, { models, parts, partBytes }: RepositoryShape): void {
  const chunk = randomFillSync(Buffer.allocUnsafe(Math.min(partBytes, CHUNK_BYTES)));
  for (let i = 0; i < models; i += 1) {
    const model = modelName(i);
    const version = join(directory, model, '1');
    mkdirSync(version, { recursive: true });
    write(join(directory, model, 'config.pbtxt'), configText(model));
    write(join(directory, model, 'labels.txt'), 'label\n');
    write(join(version, 'model.py'), '# Is stored, never loaded.\n');
    for (let part = i; part < parts; part += models) {
      writePart(join(version, `part-${String(part).padStart(5, '0')}.bin`), partBytes, chunk);
    }
  }
}

const modelName = (index: number): string => `model-${String(index).padStart(2, '0')}`;

/** Writes chunks that differ only in their first bytes. */
function writePart(path: string, bytes: number, chunk: Buffer): void {
  const file = openSync(path, 'w');
  for (let offset = 0; offset < bytes; offset += chunk.length) {
    createHash('sha256').update(`${path} ${offset}`).digest().copy(chunk);
    writeSync(file, chunk, 0, Math.min(chunk.length, bytes - offset));
  }
  closeSync(file);
  utimesSync(path, MADE, MADE);
}

function write(path: string, text: string): void {
  writeFileSync(path, text);
  utimesSync(path, MADE, MADE);
}

function configText(name: string): string {
  return `name: "${name}"
backend: "python"
input { name: "INPUT" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "OUTPUT" data_type: TYPE_FP32 dims: [ 1 ] label_filename: "labels.txt" }
version_policy { specific { versions: [ 1 ] } }
`;
}
