import { readdirSync, readFileSync, rmdirSync, rmSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { processIds, readProcess } from './proc';

/**
 * Files that a server creates outside its own folder and does not delete. Their names are noted in a file before the
 * server creates them, so that the next run deletes them if this run is killed.
 */
export class TempFileRegistry {
  private names: { folder: string; prefix: string }[] = [];

  /** Deletes the files that an earlier run noted in `file`. */
  constructor(private readonly file: string) {
    try {
      this.names = JSON.parse(readFileSync(file, 'utf8')) as typeof this.names;
    } catch {
      // No earlier run, or it was killed while it wrote the file.
    }
    this.remove();
  }

  /** Notes everything in `folder` whose name starts with `prefix`. */
  note(folder: string, prefix: string): void {
    this.names.push({ folder, prefix });
    writeFileSync(this.file, JSON.stringify(this.names));
  }

  /** Deletes the noted files and empty folders. */
  remove(): void {
    for (const { folder, prefix } of this.names) {
      for (const entry of getEntries(folder, prefix)) {
        try {
          if (entry.isDirectory()) rmdirSync(join(folder, entry.name));
          else unlinkSync(join(folder, entry.name));
        } catch {
          // Already deleted, or still in use.
        }
      }
    }
    this.names = [];
    rmSync(this.file, { force: true });
  }
}

/** Entries of `folder` whose names start with `prefix`; empty if the folder is missing. */
export function getEntries(folder: string, prefix: string) {
  try {
    return readdirSync(folder, { withFileTypes: true }).filter(({ name }) => name.startsWith(prefix));
  } catch {
    return [];
  }
}

/**
 * Deletes the empty folders that the Python backend creates in /tmp at each start and does not delete. Their owners are
 * unknown and a server may need its folder later, so nothing is deleted while a tritonserver runs.
 */
export function removeEnvironmentFolders(folder = '/tmp', server = 'tritonserver'): void {
  if (runs(server)) return;
  for (const { name } of getEntries(folder, 'python_env_')) {
    try {
      rmdirSync(join(folder, name));
    } catch {
      // In use, or owned by another user.
    }
  }
}

/** Whether a program of this name is running on this machine. */
const runs = (program: string): boolean => processIds().some((pid) => readProcess(pid, 'comm')?.trim() === program);
