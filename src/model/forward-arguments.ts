import { promises as fs } from 'node:fs';
import { inflateRawSync } from 'node:zlib';
import { formatCount } from '../core/format';
import type { ModelConfig } from './model-config';
import { centralDirectory, read, type ArtifactFault } from './torch-script';

/** Code of large models has about 100 KB. The limit bounds what we read of a damaged file. */
const MOST_CODE_BYTES = 16 * 2 ** 20;
/** The first word of the module's pickle is the class of the whole module. */
const PICKLE_BYTES = 4096;

interface Argument {
  name: string;
  /** As TorchScript writes it: `Tensor`, `Optional[Tensor]`. */
  type: string;
}

interface Entry {
  compressed: boolean;
  bytes: number;
  unpacked: number;
  offset: number;
}

/** Reads the arguments of `forward` from the code in a TorchScript file; undefined if they cannot be determined. */
export async function forwardArguments(path: string): Promise<Argument[] | undefined> {
  const file = await fs.open(path, 'r');
  try {
    const directory = await centralDirectory(file, (await file.stat()).size);
    const entries = getEntries(directory ?? Buffer.alloc(0));
    const pickle = [...entries].find(([name]) => /^[^/]*\/data\.pkl$/.test(name));
    if (pickle === undefined) return undefined;
    const head = (await content(file, pickle[1], PICKLE_BYTES))?.toString('latin1') ?? '';
    const [, module, name] = /^..c(__torch__[\w.]*)\n(\w+)\n/s.exec(head) ?? [];
    if (module === undefined || name === undefined) return undefined;
    const code = entries.get(`${pickle[0].slice(0, -'data.pkl'.length)}code/${module.replaceAll('.', '/')}.py`);
    const text = code === undefined ? undefined : await content(file, code, MOST_CODE_BYTES);
    return text === undefined ? undefined : signature(text.toString('utf8'), name);
  } finally {
    await file.close();
  }
}

/** Returns what Triton's libtorch backend refuses of the arguments (pt :1347 and :1362, as in docs/testing.md). */
export async function argumentFault(path: string, config: ModelConfig): Promise<ArtifactFault | undefined> {
  const given = await forwardArguments(path);
  if (given === undefined || given.length === 0) return undefined;
  const isDict = ({ type }: Argument): boolean => type.startsWith('Dict[');
  const [first] = given;
  if (given.length === 1 && first !== undefined && isDict(first)) return undefined;
  const odd = given.find(({ type }) => type !== 'Tensor' && !type.startsWith('List['));
  if (odd !== undefined) {
    return {
      message: `forward() has the argument ${odd.name} of type ${odd.type}, which Triton's libtorch backend does not support`,
      hint: 'let forward() take only tensors, or one Dict[str, Tensor]; put constants into the module',
    };
  }
  const { input = [], batch_input: more = [], sequence_batching: batching } = config;
  const added = (batching?.control_input ?? []).length + (batching?.state ?? []).length;
  const expected = input.length + more.length + added;
  if (input.length === 0 || given.length === expected) return undefined;
  const names = given.map(({ name }) => name).join(', ');
  return {
    message: `forward() takes ${formatCount(given.length, 'argument')} (${names}), but the configuration has ${formatCount(expected, 'input')}`,
    hint: "add an input for each argument of forward(); Triton's libtorch backend does not use default values",
  };
}

/** Entries of a zip archive by name (APPNOTE 4.3.12), without entries whose offset is in a zip64 field. */
function getEntries(directory: Buffer): Map<string, Entry> {
  const entries = new Map<string, Entry>();
  for (let at = 0; at + 46 <= directory.length && directory.readUInt32LE(at) === 0x02014b50;) {
    const [name, extra, comment] = [28, 30, 32].map((offset) => directory.readUInt16LE(at + offset)) as [
      number,
      number,
      number,
    ];
    const offset = directory.readUInt32LE(at + 42);
    if (offset !== 0xffffffff) {
      entries.set(directory.toString('utf8', at + 46, at + 46 + name), {
        compressed: directory.readUInt16LE(at + 10) === 8,
        bytes: directory.readUInt32LE(at + 20),
        unpacked: directory.readUInt32LE(at + 24),
        offset,
      });
    }
    at += 46 + name + extra + comment;
  }
  return entries;
}

/**
 * Returns the content of an entry; only the first `most` bytes if the entry is not compressed. Returns undefined if a
 * compressed entry is larger than `most`, or if the entry is damaged.
 */
async function content(file: fs.FileHandle, entry: Entry, most: number): Promise<Buffer | undefined> {
  if (entry.compressed && (entry.bytes > most || entry.unpacked > most)) return undefined;
  const local = await read(file, entry.offset, 30);
  if (local.length < 30) return undefined;
  const start = entry.offset + 30 + local.readUInt16LE(26) + local.readUInt16LE(28);
  const bytes = await read(file, start, Math.min(entry.bytes, most));
  if (!entry.compressed) return bytes;
  try {
    return inflateRawSync(bytes, { maxOutputLength: most });
  } catch {
    return undefined;
  }
}

/** Parses the arguments of `forward`. TorchScript writes each argument on its own line: `x: Tensor,`. */
function signature(code: string, name: string): Argument[] | undefined {
  const body = code.split(/^(?=class )/m).find((one) => one.startsWith(`class ${name}(Module):`));
  const [, list] = /^ {2}def forward\(self: [\w.]+(.*?)\) -> /ms.exec(body ?? '') ?? [];
  if (list === undefined) return undefined;
  const written = list.split(/,\n\s*/).slice(1);
  return written.map((one) => {
    const [, argument = '', type = ''] = /^(\w+): ([^=]*)/.exec(one) ?? [];
    return { name: argument, type };
  });
}
