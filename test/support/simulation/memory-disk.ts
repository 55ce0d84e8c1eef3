import { clock } from './clock';

/** Modification and change time, in nanoseconds. */
interface Times {
  modified: bigint;
  changed: bigint;
}

interface File extends Times {
  kind: 'file';
  body: Buffer;
}

interface Folder extends Times {
  kind: 'folder';
  entries: Map<string, Node>;
}

interface Link extends Times {
  kind: 'link';
  target: string;
}

type Node = File | Folder | Link;

/** A program that died in the middle of its work. Its later calls have no effect. */
export class DiedError extends Error {
  override readonly name = 'DiedError';
}

/** The part of Stats that this project reads. */
export interface MemoryStats {
  size: number;
  mtimeNs: bigint;
  ctimeNs: bigint;
  isDirectory(): boolean;
  isFile(): boolean;
  isSymbolicLink(): boolean;
}

/** Paths under this folder are in memory. */
export const MEMORY_ROOT = '/simulated';

/**
 * Files in memory, with the times of a Linux file system in virtual time: a write sets both times of a file, and link,
 * rename and utimes renew the change time. Everything happens at once, but a program can die at each write.
 */
export class MemoryDisk {
  private root = folder();

  clear(): void {
    this.root = folder();
  }

  exists(path: string): boolean {
    return this.find(path) !== undefined;
  }

  stat(path: string, follow: boolean): MemoryStats | undefined {
    const node = this.find(path, follow);
    if (node === undefined) return undefined;
    return {
      size: node.kind === 'file' ? node.body.byteLength : 0,
      mtimeNs: node.modified,
      ctimeNs: node.changed,
      isDirectory: () => node.kind === 'folder',
      isFile: () => node.kind === 'file',
      isSymbolicLink: () => node.kind === 'link',
    };
  }

  list(path: string): string[] {
    return [...this.folderAt(path).entries.keys()].sort();
  }

  read(path: string): Buffer {
    const node = this.need(path);
    if (node.kind !== 'file') throw failure('EISDIR', path);
    return node.body;
  }

  readLink(path: string): string {
    const node = this.find(path, false);
    if (node?.kind !== 'link') throw failure('EINVAL', path);
    return node.target;
  }

  /** Makes a folder, and those above it. */
  makeFolder(path: string): void {
    let at = this.root;
    for (const name of partsOf(path)) {
      const found = at.entries.get(name) ?? this.put(at, name, folder());
      if (found.kind !== 'folder') throw failure('EEXIST', path);
      at = found;
    }
  }

  write(path: string, body: Buffer, isNew = false): File {
    const { parent, name } = this.parentOf(path);
    const there = parent.entries.get(name);
    if (there !== undefined && isNew) throw failure('EEXIST', path);
    if (there?.kind === 'file') {
      mayWrite();
      there.body = body;
      there.modified = there.changed = now();
      return there;
    }
    return this.put(parent, name, { kind: 'file', body, modified: now(), changed: now() });
  }

  writeInto(file: File, body: Uint8Array, position: number): void {
    mayWrite();
    const end = position + body.byteLength;
    if (file.body.byteLength < end) file.body = Buffer.concat([file.body, Buffer.alloc(end - file.body.byteLength)]);
    file.body.set(body, position);
    file.modified = file.changed = now();
  }

  link(target: string, path: string): void {
    const { parent, name } = this.parentOf(path);
    if (parent.entries.has(name)) throw failure('EEXIST', path);
    this.put(parent, name, { kind: 'link', target, modified: now(), changed: now() });
  }

  rename(from: string, to: string): void {
    const source = this.parentOf(from);
    const node = source.parent.entries.get(source.name);
    if (node === undefined) throw failure('ENOENT', from);
    const target = this.parentOf(to);
    const there = target.parent.entries.get(target.name);
    if (there?.kind === 'folder' && (node.kind !== 'folder' || there.entries.size > 0)) throw failure('ENOTEMPTY', to);
    this.put(target.parent, target.name, node);
    source.parent.entries.delete(source.name);
    node.changed = now();
  }

  remove(path: string, { recursive = false, force = false }): void {
    const { parent, name } = this.parentOf(path);
    const node = parent.entries.get(name);
    if (node === undefined) {
      if (force) return;
      throw failure('ENOENT', path);
    }
    if (node.kind === 'folder' && !recursive) throw failure('ERR_FS_EISDIR', path);
    mayWrite();
    parent.entries.delete(name);
    parent.modified = parent.changed = now();
  }

  setTime(path: string, seconds: number): void {
    const node = this.need(path);
    mayWrite();
    node.modified = BigInt(Math.round(seconds * 1e6)) * 1000n;
    node.changed = now();
  }

  private put<N extends Node>(parent: Folder, name: string, node: N): N {
    mayWrite();
    parent.entries.set(name, node);
    parent.modified = parent.changed = now();
    return node;
  }

  private need(path: string): Node {
    const node = this.find(path);
    if (node === undefined) throw failure('ENOENT', path);
    return node;
  }

  private folderAt(path: string): Folder {
    const node = this.need(path);
    if (node.kind !== 'folder') throw failure('ENOTDIR', path);
    return node;
  }

  private parentOf(path: string): { parent: Folder; name: string } {
    const at = path.lastIndexOf('/');
    return { parent: this.folderAt(path.slice(0, at)), name: path.slice(at + 1) };
  }

  private find(path: string, follow = true): Node | undefined {
    const parts = partsOf(path);
    let node: Node = this.root;
    for (let i = 0; i < parts.length; i += 1) {
      if (node.kind !== 'folder') return undefined;
      const next: Node | undefined = node.entries.get(parts[i] as string);
      if (next === undefined) return undefined;
      if (next.kind === 'link' && (follow || i < parts.length - 1)) {
        const rest = parts.slice(i + 1);
        return this.find(resolve([...parts.slice(0, i), ...next.target.split('/'), ...rest]), follow);
      }
      node = next;
    }
    return node;
  }
}

const partsOf = (path: string): string[] => path.slice(1).split('/');

function resolve(parts: string[]): string {
  const kept: string[] = [];
  for (const part of parts) {
    if (part === '..') kept.pop();
    else if (part !== '.' && part !== '') kept.push(part);
  }
  return `/${kept.join('/')}`;
}

const now = (): bigint => BigInt(clock().wall()) * 1_000_000n;

const folder = (): Folder => ({ kind: 'folder', entries: new Map(), modified: 0n, changed: 0n });

function mayWrite(): void {
  const { current } = clock();
  if (current.writesLeft !== undefined && (current.writesLeft -= 1) < 0) current.die();
  if (current.isDead) throw new DiedError(`${current.name} has died`);
}

function failure(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code });
}

/** The disks of all pods and publishers. */
export const disk = new MemoryDisk();
