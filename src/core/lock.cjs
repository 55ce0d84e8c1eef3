const { linkSync, readFileSync, rmSync, unlinkSync, writeFileSync } = require('node:fs');
const process = require('node:process');

/*
 * Lock files that hold the id of the process that owns them. This file is CommonJS without dependencies, because the
 * launcher needs a lock before node_modules exist, and src/local/install and the unit tests use the same one.
 */

let attempts = 0;

/**
 * Tries to acquire the lock file `path`. The lock of a process that has ended is stale and is replaced.
 * @param {string} path
 * @returns {{ release: () => void } | { owner: number }} a function that releases the lock, or the process to wait for
 * @throws the file system's error if the lock cannot be read or written
 */
exports.tryLock = (path) => {
  // Linked to its name when it is complete, because other processes would take an empty file for a stale lock.
  const own = `${path}.${process.pid}-${(attempts += 1)}`;
  writeFileSync(own, String(process.pid));
  try {
    for (;;) {
      if (link(own, path)) return { release: () => release(path) };
      const owner = readOwner(path);
      if (owner === undefined) continue; // Released after we tried to link.
      if (exports.isAlive(owner)) return { owner };
      const remover = removeStale(path);
      if (remover !== undefined) return { owner: remover };
    }
  } finally {
    rmSync(own, { force: true });
  }
};

/**
 * Removes a stale lock. A second lock lets one process at a time do so: the lock that a slower process removed might
 * otherwise be that of a new owner.
 * @returns {number | undefined} the other process that removes the stale lock now
 */
function removeStale(path) {
  const guard = exports.tryLock(`${path}.stale`);
  if ('owner' in guard) return guard.owner;
  try {
    const owner = readOwner(path);
    if (owner !== undefined && !exports.isAlive(owner)) unlinkSync(path);
  } finally {
    guard.release();
  }
  return undefined;
}

/** @returns {boolean} false if `path` exists */
function link(file, path) {
  try {
    linkSync(file, path);
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

/** @returns {number | undefined} undefined if there is no lock; NaN or 0 for a damaged lock */
function readOwner(path) {
  try {
    return Number(readFileSync(path, 'utf8'));
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/** A user may have deleted our lock, so that another process owns it now. */
function release(path) {
  if (readOwner(path) === process.pid) unlinkSync(path);
}

/** Whether a process with this id exists, of this user or another. */
exports.isAlive = (pid) => {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
};
