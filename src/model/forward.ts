import { promises as fs } from 'node:fs';
import { inflateRawSync } from 'node:zlib';
import { formatCount } from '../core/format';
import { describe } from '../core/problems';
import type { ModelConfig } from './model-config';
import { getPosition } from './rules/tensors';
import { centralDirectory, read, type ArtifactFault } from './torch-script';

/** Code of large models has about 100 KB. The limit bounds what we read of a damaged file. */
const MOST_CODE_BYTES = 16 * 2 ** 20;

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

/** The declaration of `forward`. */
export interface Forward {
  arguments: Argument[];
  /** The return type, as TorchScript writes it: `Tuple[Tensor, List[str]]`. */
  returns: string;
  /** The first module in training mode: its path from the root, such as `layers.1`, and `` for the root. */
  training: string | undefined;
  /** The first operation that the code calls in training mode, such as `dropout`, in a module of any mode. */
  trainedOperation?: string;
}

/** Reads the declaration of `forward` from the code in a TorchScript file; undefined if it cannot be determined. */
export async function readForward(path: string): Promise<Forward | undefined> {
  const file = await fs.open(path, 'r');
  try {
    const directory = await centralDirectory(file, (await file.stat()).size);
    const entries = getEntries(directory ?? Buffer.alloc(0));
    const pickle = [...entries].find(([name]) => /^[^/]*\/data\.pkl$/.test(name));
    if (pickle === undefined) return undefined;
    const objects = (await content(file, pickle[1], MOST_CODE_BYTES)) ?? Buffer.alloc(0);
    // The first word is the class of the whole module.
    const [, module, name] = /^..c(__torch__[\w.]*)\n(\w+)\n/s.exec(objects.toString('latin1', 0, 4096)) ?? [];
    if (module === undefined || name === undefined) return undefined;
    const code = entries.get(`${pickle[0].slice(0, -'data.pkl'.length)}code/${module.replaceAll('.', '/')}.py`);
    const text = code === undefined ? undefined : await content(file, code, MOST_CODE_BYTES);
    const declared = text === undefined ? undefined : signature(text.toString('utf8'), name);
    if (declared === undefined) return undefined;
    const found: Forward = { ...declared, training: trainingModule(objects) };
    for (const [, entry] of [...entries].filter(([key]) => /^[^/]*\/code\/.*\.py$/.test(key))) {
      found.trainedOperation ??= trainedOperation(
        (await content(file, entry, MOST_CODE_BYTES))?.toString('utf8') ?? '',
      );
    }
    return found;
  } finally {
    await file.close();
  }
}

/** Returns all that Triton's libtorch backend refuses of `forward`, or answers wrongly. */
export async function forwardFaults(path: string, config: ModelConfig): Promise<ArtifactFault[]> {
  const forward = await readForward(path);
  if (forward === undefined) return [];
  const faults = [argumentFault(forward, config), returnFault(forward, config), trainingFault(forward)];
  return faults.filter((fault) => fault !== undefined);
}

/** Triton does not call eval(), so dropout would be random and batch norm would mix the rows of a batch. */
function trainingFault({ training, trainedOperation: operation }: Forward): ArtifactFault | undefined {
  if (training === undefined) {
    if (operation === undefined) return undefined;
    return {
      message: `calls ${operation} in training mode, in which dropout is random and batch norm mixes the requests of a batch`,
      hint: 'call model.eval() before torch.jit.trace, because a trace keeps the mode that it was made in, and save the file again',
    };
  }
  return {
    message: `was saved with ${training === '' ? 'the whole module' : `its module ${training}`} in training mode, in which dropout is random and batch norm mixes the requests of a batch`,
    hint: 'call model.eval() before torch.jit.script or torch.jit.trace, and save the file again',
  };
}

/** Lines 1347 and 1362 of the source that rules/backends.ts names. */
function argumentFault({ arguments: given }: Forward, config: ModelConfig): ArtifactFault | undefined {
  if (given.length === 0) return undefined;
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

/** Types that are neither a tensor, nor a list of texts, nor perhaps one of these, such as Optional[Tensor]. */
const NOT_RETURNED = /^(List\[(?!str\])|Dict\[|Tuple\[|(int|float|complex|bool|str|number|NoneType)$)/;

/** pt :320 and :738. A request fails if the model returns other types, or fewer tensors than the configuration names. */
function returnFault({ returns }: Forward, { output = [] }: ModelConfig): ArtifactFault | undefined {
  const [, list] = /^Tuple\[(.*)\]$/.exec(returns) ?? [];
  const types = list === undefined ? [returns] : splitList(list);
  if (types.some((type) => NOT_RETURNED.test(type))) {
    return {
      message: `forward() returns ${returns}, which Triton's libtorch backend does not support`,
      hint: 'return a tensor or a flat tuple of tensors',
    };
  }
  // The elements of a named tuple are in another file of the archive.
  if (types.some((type) => type.startsWith('__torch__.'))) return undefined;
  const positions = output.map(({ name = '' }) => getPosition(name));
  const isNumbered = positions.every((position) => position !== undefined);
  const beyond = output.find((_, index) => ((isNumbered ? positions[index] : index) ?? 0) >= types.length);
  if (beyond === undefined) return undefined;
  return {
    message: `forward() returns ${formatCount(types.length, 'output')}, and ${describe(beyond.name)} of the configuration is not among them`,
    hint: 'the number in the name of an output is its position in the returned tuple, from 0: output__0, output__1, ...',
  };
}

/** Splits `Tensor, Dict[str, Tensor]` at the commas outside of brackets, up to a bracket that was not opened in it. */
function splitList(list: string): string[] {
  const types = [''];
  let depth = 0;
  for (const character of list) {
    depth += '[('.includes(character) ? 1 : '])'.includes(character) ? -1 : 0;
    if (depth < 0) break;
    if (character === ',' && depth === 0) types.push('');
    else types.push((types.pop() ?? '') + character);
  }
  return types.map((type) => type.trim());
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

/** Opcode of a pickle -> bytes of its argument, for the opcodes that torch.jit.save writes and that are not below. */
const ARGUMENT_BYTES: Readonly<Record<string, number>> = Object.fromEntries(
  ['().NQRabestu]}\x81\x85\x86\x87\x88\x89', 'Khq\x80', 'M', '', 'Jjr', '', '', '', 'G'].flatMap((opcodes, bytes) =>
    Array.from(opcodes, (opcode) => [opcode, bytes]),
  ),
);

/**
 * Returns the path of the first module whose attribute `training` is true; undefined if there is none or if the pickle
 * has an unknown opcode. Each module is NEWOBJ (0x81), its attributes (a name, then the value) and BUILD (b).
 */
function trainingModule(pickle: Buffer): string | undefined {
  const strings = new Map<number, string>();
  const path: string[] = [];
  let name = '';
  let before = '';
  for (let at = 0; at + 5 <= pickle.length;) {
    const opcode = String.fromCharCode(pickle[at] ?? 0);
    // The argument, or the length of a string.
    const number = 'qhK\x8a'.includes(opcode) ? pickle.readUInt8(at + 1) : pickle.readUInt32LE(at + 1);
    let bytes = ARGUMENT_BYTES[opcode];
    if (opcode === 'X') bytes = 4 + number;
    if (opcode === '\x8a') bytes = 1 + number;
    if (opcode === 'c') bytes = pickle.indexOf('\n', pickle.indexOf('\n', at) + 1) - at;
    if (bytes === undefined || bytes < 0) return undefined;
    if (opcode === 'X') name = pickle.toString('utf8', at + 5, at + 5 + number);
    if ('qr'.includes(opcode) && before === 'X') strings.set(number, name);
    if ('hj'.includes(opcode)) name = strings.get(number) ?? name;
    if (opcode === '\x81') path.push(name);
    if (opcode === 'b') path.pop();
    if (opcode === '\x88' && name === 'training') return path.slice(1).join('.');
    before = opcode;
    at += 1 + bytes;
  }
  return undefined;
}

/**
 * Returns the first operation that code of a trace calls in training mode: dropout(x, p, True) whose p is not 0, or
 * batch_norm(x, weight, bias, mean, variance, True, ...). Without mean and variance, batch norm has only one mode.
 */
function trainedOperation(code: string): string | undefined {
  for (const call of code.matchAll(/\btorch\.((?:feature_)?(?:alpha_)?dropout_?|batch_norm)\(/g)) {
    const [, operation = ''] = call;
    const given = splitList(code.slice(call.index + call[0].length));
    const isTrained = operation === 'batch_norm' ? given[5] === 'True' && given[3] !== 'None' : given[2] === 'True';
    if (isTrained && (operation === 'batch_norm' || Number(given[1]) !== 0)) return operation;
  }
  return undefined;
}

/** Parses the declaration of `forward`. TorchScript writes each argument on its own line: `x: Tensor,`. */
function signature(code: string, name: string): Omit<Forward, 'training'> | undefined {
  const body = code.split(/^(?=class )/m).find((one) => one.startsWith(`class ${name}(Module):`));
  const [, list, returns] = /^ {2}def forward\(self: [\w.]+(.*?)\) -> ([^:]+):/ms.exec(body ?? '') ?? [];
  if (list === undefined || returns === undefined) return undefined;
  const written = list.split(/,\n\s*/).slice(1);
  const given = written.map((one) => {
    const [, argument = '', type = ''] = /^(\w+): ([^=]*)/.exec(one) ?? [];
    return { name: argument, type };
  });
  return { arguments: given, returns };
}
