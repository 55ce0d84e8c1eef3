import { disk } from '../memory-disk';

/** `node:fs/promises` in memory: the functions that the agent calls. Each is done at once. */
export * from 'fs/promises';

export const mkdir = async (path: string): Promise<void> => disk.makeFolder(path);
export const readdir = async (path: string): Promise<string[]> => disk.list(path);
export const rename = async (from: string, to: string): Promise<void> => disk.rename(from, to);
export const rm = async (path: string, options: { recursive?: boolean; force?: boolean } = {}): Promise<void> =>
  disk.remove(path, options);
export const stat = async (path: string): Promise<ReturnType<typeof disk.stat>> => disk.stat(path, true);
export const writeFile = async (path: string, body: string | Uint8Array): Promise<void> =>
  void disk.write(path, Buffer.from(body as string));

interface MemoryHandle {
  stat(): Promise<ReturnType<typeof disk.stat>>;
  read(buffer: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesRead: number }>;
  write(buffer: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesWritten: number }>;
  datasync(): Promise<void>;
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** Opens a file for reading, a new file for writing, or without a flag a folder. */
export async function open(path: string, flag?: string): Promise<MemoryHandle> {
  const file = flag === undefined || flag === 'r' ? undefined : disk.write(path, Buffer.alloc(0), true);
  return {
    stat: async () => disk.stat(path, true),
    read: async (buffer, offset, length, position) => {
      const body = disk.read(path).subarray(position, position + length);
      buffer.set(body, offset);
      return { bytesRead: body.length };
    },
    write: async (buffer, offset, length, position) => {
      if (file !== undefined) disk.writeInto(file, buffer.subarray(offset, offset + length), position);
      return { bytesWritten: length };
    },
    datasync: async () => undefined,
    sync: async () => undefined,
    close: async () => undefined,
  };
}
