import fs from 'node:fs';

/** An error in a file that a backend opens, with the next step. */
export interface ArtifactFault {
  message: string;
  hint: string;
}

interface Entry {
  name: string;
  bytes: number;
  offset: number;
}

const SAVE = 'save it with torch.jit.trace(model, inputs).save(path) or torch.jit.script(model).save(path)';
const SAVE_PROGRAM = 'return a ProgramExport from trace.py, and run npm run trace; or write it with torch.export.save';
const TRACE_WEIGHTS = 'write a trace.py that loads these weights (docs/tracing.md), and run npm run trace';

/**
 * Checks that a file is TorchScript, a zip archive as torch.jit.save writes it, and that it was not saved in training
 * mode, which answers without an error. A server compares the arguments of forward() when it loads the model.
 */
export function torchScriptFaults(file: string): ArtifactFault[] {
  return readArchive(file, 'TorchScript', SAVE, (entries, fd) => {
    // torch.jit.save writes the constants of the code to this file, even if there are none.
    if (!has(entries, /^[^/]*\/constants\.pkl$/)) {
      return has(entries, EXPORTED) || has(entries, COMPILED)
        ? [
            {
              message: 'is a program of torch.export, not TorchScript',
              hint: 'write platform: torch_aoti in model.yaml',
            },
          ]
        : [{ message: 'is a zip archive without code (torch.save of weights), not TorchScript', hint: TRACE_WEIGHTS }];
    }
    const isTrained = isInTrainingMode(readFrom(fd, entries, /^[^/]*\/data\.pkl$/));
    return isTrained ? [inTraining('torch.jit.script or torch.jit.trace')] : [];
  });
}

const inTraining = (call: string): ArtifactFault => ({
  message: 'was saved in training mode, in which dropout is random and batch norm mixes the requests of a batch',
  hint: `call model.eval() before ${call}, and save the file again`,
});

/** Files of an archive that torch.export.save wrote, and of one that AOTInductor has compiled. */
const EXPORTED = /^[^/]*\/models\/[^/]+\.json$/;
const COMPILED = /^[^/]*\/data\/aotinductor\//;

/** Checks that a file is a program, exported or compiled. */
export function programFaults(file: string): ArtifactFault[] {
  return readArchive(file, 'a program of torch.export', SAVE_PROGRAM, (entries, fd) => {
    if (has(entries, EXPORTED))
      return isTraining(readFrom(fd, entries, EXPORTED)) ? [inTraining('torch.export.export')] : [];
    if (has(entries, COMPILED)) return [];
    return has(entries, /^[^/]*\/constants\.pkl$/)
      ? [{ message: 'is TorchScript, not a program', hint: 'write platform: pytorch_libtorch in model.yaml' }]
      : [{ message: 'is a zip archive without a program (torch.save of weights)', hint: TRACE_WEIGHTS }];
  });
}

/** Whether a program is compiled for one kind of processor, as Triton's own backend needs it. */
export function isCompiled(file: string): boolean {
  let compiled = false;
  readArchive(file, '', '', (entries) => {
    compiled = has(entries, COMPILED);
    return [];
  });
  return compiled;
}

const has = (entries: readonly Entry[], name: RegExp): boolean => entries.some((entry) => name.test(entry.name));

/** Opens a zip archive of PyTorch. `check` is not called for one of more than 4 GiB, whose list has another place. */
function readArchive(
  file: string,
  kind: string,
  save: string,
  check: (entries: readonly Entry[], fd: number) => ArtifactFault[],
): ArtifactFault[] {
  const fd = fs.openSync(file, 'r');
  try {
    const start = read(fd, 0, 4).toString('latin1');
    if (start === 'vers') return [{ message: 'is a Git LFS pointer, not the model', hint: 'run git lfs pull' }];
    if (start !== 'PK\x03\x04') {
      const message = start.startsWith('\x80')
        ? `is a pickle (torch.save of weights or of a Python object), not ${kind}`
        : `is not ${kind}, which is a zip archive and starts with "PK"; the file starts with ${JSON.stringify(start)}`;
      return [{ message, hint: save }];
    }
    const entries = readDirectory(fd, fs.fstatSync(fd).size);
    if (entries === undefined) {
      return [{ message: 'is truncated: the zip archive has no end', hint: 'copy or trace it again' }];
    }
    return entries.length === 0 ? [] : check(entries, fd);
  } finally {
    fs.closeSync(fd);
  }
}

function read(fd: number, position: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  return bytes.subarray(0, fs.readSync(fd, bytes, 0, length, position));
}

/**
 * Reads the list of files at the end of a zip archive (APPNOTE 4.3.12).
 * @returns undefined if the archive is truncated, and nothing for one of more than 4 GiB
 */
function readDirectory(fd: number, size: number): Entry[] | undefined {
  // The end record has 22 bytes and a comment of up to 64 KiB.
  const tail = read(fd, Math.max(0, size - 22 - 0xffff), 22 + 0xffff);
  const end = tail.lastIndexOf('PK\x05\x06', undefined, 'latin1');
  if (end < 0 || end + 22 > tail.length) return undefined;
  const [length, start] = [tail.readUInt32LE(end + 12), tail.readUInt32LE(end + 16)];
  if (length === 0xffffffff || start === 0xffffffff) return [];
  if (start + length > size) return undefined;
  const list = read(fd, start, length);
  const entries: Entry[] = [];
  for (let at = 0; at + 46 <= list.length && list.readUInt32LE(at) === 0x02014b50;) {
    const next = at + 46 + list.readUInt16LE(at + 28);
    const name = list.toString('utf8', at + 46, next);
    entries.push({ name, bytes: list.readUInt32LE(at + 20), offset: list.readUInt32LE(at + 42) });
    at = next + list.readUInt16LE(at + 30) + list.readUInt16LE(at + 32);
  }
  return entries;
}

/** The objects of large models have a few megabytes. The limit bounds what we read of a damaged file. */
const MOST_BYTES = 16 * 2 ** 20;

/** The content of a file in the archive, which PyTorch does not compress. */
function readFrom(fd: number, entries: readonly Entry[], wanted: RegExp): Buffer {
  const entry = entries.find(({ name }) => wanted.test(name));
  if (entry === undefined) return Buffer.alloc(0);
  const local = read(fd, entry.offset, 30);
  const names = local.length < 30 ? 0 : local.readUInt16LE(26) + local.readUInt16LE(28);
  return read(fd, entry.offset + 30 + names, Math.min(entry.bytes, MOST_BYTES));
}

/** Whether an attribute `training` is NEWTRUE (0x88). From the second time on, the pickle has a number for the name. */
function isInTrainingMode(objects: Buffer): boolean {
  const text = objects.toString('latin1');
  const [name, number = ''] = /trainingq(.)/s.exec(text) ?? [];
  return name !== undefined && [`${name}\x88`, `h${number}\x88`].some((isTrue) => text.includes(isTrue));
}

/** Whether the graph of a program has an operator with `train` or `training` set, as of dropout and batch norm. */
function isTraining(graph: Buffer): boolean {
  return /"name": ?"train(ing)?", ?"arg": ?\{"as_bool": ?true\}/.test(graph.toString('latin1'));
}
