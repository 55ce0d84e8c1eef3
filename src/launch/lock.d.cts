/** Tries to acquire a lock file: returns a function that releases it, or the id of the process to wait for. */
export function tryLock(path: string): { release: () => void } | { owner: number };
