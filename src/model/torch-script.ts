import { promises as fs } from 'node:fs';

const LOCAL_FILE = Buffer.from('PK\x03\x04', 'latin1');
const END_OF_DIRECTORY = Buffer.from('PK\x05\x06', 'latin1');
const END_OF_DIRECTORY_64 = Buffer.from('PK\x06\x06', 'latin1');
/** The end record has 22 bytes and a comment of up to 64 KiB. A zip64 file has 76 more bytes before the record. */
const END_BYTES = 22 + 0xffff + 76;
/** No model has a larger directory. The limit bounds what we read of a damaged file. */
const MOST_DIRECTORY_BYTES = 64 * 2 ** 20;

/** An error in a file that a backend opens, with the next step. */
export interface ArtifactFault {
  message: string;
  hint: string;
}

/** The beginning of "version https://git-lfs.github.com/spec/v1". */
const GIT_LFS = Buffer.from('vers', 'latin1');
const SAVE = 'save it with torch.jit.trace(model, inputs).save(path) or torch.jit.script(model).save(path)';

const WEIGHTS = 'write a trace.py that loads these weights (docs/guides/tracing.md), and run npm run trace';

/**
 * Checks whether a file is TorchScript: a zip archive with code, as torch.jit.save writes it.
 * torch.save also writes a zip archive, but only of weights, which no server can run. Only the two ends are read.
 */
export async function torchScriptFault(path: string): Promise<ArtifactFault | undefined> {
  const file = await fs.open(path, 'r');
  try {
    const { size } = await file.stat();
    const start = await read(file, 0, Math.min(size, 4));
    if (start.equals(GIT_LFS)) return { message: 'is a Git LFS pointer, not the model', hint: 'run git lfs pull' };
    if (start[0] === 0x80) {
      return { message: 'is a pickle (torch.save of weights or of a Python object), not TorchScript', hint: SAVE };
    }
    if (!start.equals(LOCAL_FILE)) {
      return {
        message: `is not TorchScript, which is a zip archive and starts with "PK"; the file starts with ${quote(start)}`,
        hint: SAVE,
      };
    }
    const directory = await centralDirectory(file, size);
    if (directory === undefined) {
      return { message: 'is truncated: the zip archive has no end', hint: 'copy or trace it again' };
    }
    // torch.jit.save writes the constants of the code to this file, even if there are none.
    if (!directory.includes('/constants.pkl')) {
      return { message: 'is a zip archive without code (torch.save of weights), not TorchScript', hint: WEIGHTS };
    }
    return undefined;
  } finally {
    await file.close();
  }
}

/** The list of names at the end of a zip archive (APPNOTE 4.3.12), or undefined if the list is incomplete. */
export async function centralDirectory(file: fs.FileHandle, size: number): Promise<Buffer | undefined> {
  const tail = await read(file, Math.max(0, size - END_BYTES), Math.min(size, END_BYTES));
  const end = tail.lastIndexOf(END_OF_DIRECTORY);
  if (end < 0 || end + 22 > tail.length) return undefined;
  let [bytes, offset] = [tail.readUInt32LE(end + 12), tail.readUInt32LE(end + 16)];
  if (bytes === 0xffffffff || offset === 0xffffffff) {
    const end64 = tail.lastIndexOf(END_OF_DIRECTORY_64, end);
    if (end64 < 0 || end64 + 56 > tail.length) return undefined;
    [bytes, offset] = [Number(tail.readBigUInt64LE(end64 + 40)), Number(tail.readBigUInt64LE(end64 + 48))];
  }
  if (offset + bytes > size || bytes > MOST_DIRECTORY_BYTES) return undefined;
  return read(file, offset, bytes);
}

/** Reads bytes of a file; fewer at its end. */
export async function read(file: fs.FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position);
  return buffer.subarray(0, bytesRead);
}

const quote = (bytes: Buffer): string => JSON.stringify(bytes.toString('latin1'));
