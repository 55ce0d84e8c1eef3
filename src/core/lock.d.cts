/** Tries to acquire a lock file: returns a function that releases it, or the id of the process to wait for. */
export function tryLock(path: string): { release: () => void } | { owner: number };
/** Whether a process with this id exists, of this user or another. */
export function isAlive(pid: number): boolean;
