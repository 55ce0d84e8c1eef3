import { readdirSync, readFileSync } from 'node:fs';

/** A process and all that it started, and what these started. */
function processTree(root: number): number[] {
  const children = new Map<number, number[]>();
  for (const pid of readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)) {
    const parent = Number(/^.*\) \S (\d+)/s.exec(read(`/proc/${pid}/stat`))?.[1] ?? 0);
    children.set(parent, [...(children.get(parent) ?? []), pid]);
  }
  const tree = [root];
  for (const pid of tree) tree.push(...(children.get(pid) ?? []));
  return tree;
}

/** Memory of a process and of all that it started, now and without the pages of mapped files, in bytes. */
export const memoryOf = (root: number): number =>
  processTree(root).reduce((sum, pid) => sum + field(read(`/proc/${pid}/smaps_rollup`), 'Pss_Anon'), 0);

/**
 * The most memory that a server and its model processes took, in bytes: the sum of the peaks of all processes, where pages of
 * /dev/shm, and those of files that processes of one program have mapped, count once.
 */
export function peakMemoryOf(root: number): number {
  let [own, shared] = [0, 0];
  const files = new Map<string, number>();
  for (const pid of processTree(root)) {
    const status = read(`/proc/${pid}/status`);
    const program = /^Name:\s+(.*)/.exec(status)?.[1] ?? '';
    const [mapped, inShm] = [field(status, 'RssFile'), field(status, 'RssShmem')];
    own += field(status, 'VmHWM') - mapped - inShm;
    shared = Math.max(shared, inShm);
    files.set(program, Math.max(files.get(program) ?? 0, mapped));
  }
  return own + shared + [...files.values()].reduce((sum, bytes) => sum + bytes, 0);
}

/** `RssFile:   123 kB` in bytes; 0 where the process has ended. */
const field = (text: string, key: string): number =>
  1024 * Number(new RegExp(`^${key}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0);

/** Empty where the process has ended. */
function read(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}
