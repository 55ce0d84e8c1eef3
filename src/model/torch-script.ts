import fs from 'node:fs';

/** An error in a file that a backend opens, with the next step. */
export interface ArtifactFault {
  message: string;
  hint: string;
}

const SAVE = 'save it with torch.jit.trace(model, inputs).save(path) or torch.jit.script(model).save(path)';

/**
 * Checks that a file is TorchScript, a zip archive as torch.jit.save writes it, and that it was not saved in training
 * mode, which answers without an error. A server compares the arguments of forward() when it loads the model.
 */
export function torchScriptFaults(file: string): ArtifactFault[] {
  const fd = fs.openSync(file, 'r');
  try {
    const start = read(fd, 0, 4).toString('latin1');
    if (start === 'vers') return [{ message: 'is a Git LFS pointer, not the model', hint: 'run git lfs pull' }];
    if (start !== 'PK\x03\x04') {
      const message = start.startsWith('\x80')
        ? 'is a pickle (torch.save of weights or of a Python object), not TorchScript'
        : `is not TorchScript, which is a zip archive and starts with "PK"; the file starts with ${JSON.stringify(start)}`;
      return [{ message, hint: SAVE }];
    }
    const directory = readDirectory(fd, fs.fstatSync(fd).size);
    if (directory === undefined) {
      return [{ message: 'is truncated: the zip archive has no end', hint: 'copy or trace it again' }];
    }
    // torch.jit.save writes the constants of the code to this file, even if there are none.
    if (directory.length > 0 && !directory.includes('/constants.pkl')) {
      const hint = 'write a trace.py that loads these weights (docs/tracing.md), and run npm run trace';
      return [{ message: 'is a zip archive without code (torch.save of weights), not TorchScript', hint }];
    }
    if (!isInTrainingMode(readObjects(fd, directory))) return [];
    return [
      {
        message: 'was saved in training mode, in which dropout is random and batch norm mixes the requests of a batch',
        hint: 'call model.eval() before torch.jit.script or torch.jit.trace, and save the file again',
      },
    ];
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
 * @returns undefined if the archive is truncated, and nothing for one of more than 4 GiB, whose list has another place
 */
function readDirectory(fd: number, size: number): Buffer | undefined {
  // The end record has 22 bytes and a comment of up to 64 KiB.
  const tail = read(fd, Math.max(0, size - 22 - 0xffff), 22 + 0xffff);
  const end = tail.lastIndexOf('PK\x05\x06', undefined, 'latin1');
  if (end < 0 || end + 22 > tail.length) return undefined;
  const [bytes, offset] = [tail.readUInt32LE(end + 12), tail.readUInt32LE(end + 16)];
  if (bytes === 0xffffffff || offset === 0xffffffff) return Buffer.alloc(0);
  return offset + bytes > size ? undefined : read(fd, offset, bytes);
}

/** The objects of large models have a few megabytes. The limit bounds what we read of a damaged file. */
const MOST_BYTES = 16 * 2 ** 20;

/** The modules with their attributes: the content of data.pkl, which torch.jit.save does not compress. */
function readObjects(fd: number, directory: Buffer): Buffer {
  for (let at = 0; at + 46 <= directory.length && directory.readUInt32LE(at) === 0x02014b50;) {
    const end = at + 46 + directory.readUInt16LE(at + 28);
    if (/^[^/]*\/data\.pkl$/.test(directory.toString('utf8', at + 46, end))) {
      const start = directory.readUInt32LE(at + 42) + 30;
      const local = read(fd, start - 30, 30);
      const names = local.length < 30 ? 0 : local.readUInt16LE(26) + local.readUInt16LE(28);
      return read(fd, start + names, Math.min(directory.readUInt32LE(at + 20), MOST_BYTES));
    }
    at = end + directory.readUInt16LE(at + 30) + directory.readUInt16LE(at + 32);
  }
  return Buffer.alloc(0);
}

/** Whether an attribute `training` is NEWTRUE (0x88). From the second time on, the pickle has a number for the name. */
function isInTrainingMode(objects: Buffer): boolean {
  const text = objects.toString('latin1');
  const [name, number = ''] = /trainingq(.)/s.exec(text) ?? [];
  return name !== undefined && [`${name}\x88`, `h${number}\x88`].some((isTrue) => text.includes(isTrue));
}
