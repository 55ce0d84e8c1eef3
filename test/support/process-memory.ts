import { getParent, processIds, readProcess } from '../../src/local/process/proc';

/** A process and all its descendants. */
function processTree(root: number): number[] {
  const children = new Map<number, number[]>();
  for (const pid of processIds()) {
    const parent = getParent(pid);
    children.set(parent, [...(children.get(parent) ?? []), pid]);
  }
  const tree = [root];
  for (const pid of tree) tree.push(...(children.get(pid) ?? []));
  return tree;
}

/** Present memory of a process and its descendants, without pages of mapped files, in bytes. */
export const getMemory = (root: number): number =>
  processTree(root).reduce((sum, pid) => sum + field(readProcess(pid, 'smaps_rollup'), 'Pss_Anon'), 0);

/**
 * The peak memory of a server and its model processes, in bytes: the sum of the peaks of all processes. Pages of
 * /dev/shm, and of files that processes of the same program have mapped, count only once.
 */
export function getPeakMemory(root: number): number {
  let [own, shared] = [0, 0];
  const files = new Map<string, number>();
  for (const pid of processTree(root)) {
    const status = readProcess(pid, 'status');
    const program = /^Name:\s+(.*)/.exec(status ?? '')?.[1] ?? '';
    const [mapped, inShm] = [field(status, 'RssFile'), field(status, 'RssShmem')];
    own += field(status, 'VmHWM') - mapped - inShm;
    shared = Math.max(shared, inShm);
    files.set(program, Math.max(files.get(program) ?? 0, mapped));
  }
  return own + shared + [...files.values()].reduce((sum, bytes) => sum + bytes, 0);
}

/** The bytes of a line such as `RssFile:   123 kB`; 0 if the process has ended. */
const field = (text: string | undefined, key: string): number =>
  1024 * Number(new RegExp(`^${key}:\\s+(\\d+) kB`, 'm').exec(text ?? '')?.[1] ?? 0);
