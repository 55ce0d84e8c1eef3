import { readdirSync, readFileSync, rmdirSync, rmSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * What a server leaves outside of its own folder, where it cannot be told to put it. Noted in a file before it can
 * appear, so that the next run removes it when this one is killed.
 */
export class Leftovers {
  private names: { folder: string; prefix: string }[] = [];

  /** Removes what an earlier run noted in `file`. */
  constructor(private readonly file: string) {
    try {
      this.names = JSON.parse(readFileSync(file, 'utf8')) as typeof this.names;
    } catch {
      // There was none, or it was killed while it wrote.
    }
    this.remove();
  }

  /** Notes everything in `folder` whose name begins with `prefix`. */
  note(folder: string, prefix: string): void {
    this.names.push({ folder, prefix });
    writeFileSync(this.file, JSON.stringify(this.names));
  }

  /** Removes it: files, and folders that are empty. */
  remove(): void {
    for (const { folder, prefix } of this.names) {
      for (const entry of entriesOf(folder, prefix)) {
        try {
          if (entry.isDirectory()) rmdirSync(join(folder, entry.name));
          else unlinkSync(join(folder, entry.name));
        } catch {
          // Gone meanwhile, or in use after all.
        }
      }
    }
    this.names = [];
    rmSync(this.file, { force: true });
  }
}

/** What is in `folder` and begins with `prefix`; nothing where there is no such folder. */
export function entriesOf(folder: string, prefix: string) {
  try {
    return readdirSync(folder, { withFileTypes: true }).filter(({ name }) => name.startsWith(prefix));
  } catch {
    return [];
  }
}

/**
 * Removes the empty folders that the Python backend makes in /tmp at each start and leaves there. Nothing tells whose one
 * is, and a server may need its own later: none goes while a tritonserver runs.
 */
export function removeEnvironmentFolders(folder = '/tmp', server = 'tritonserver'): void {
  if (runs(server)) return;
  for (const { name } of entriesOf(folder, 'python_env_')) {
    try {
      rmdirSync(join(folder, name));
    } catch {
      // In use after all, or another user's.
    }
  }
}

/** Whether a program of this name runs on this machine. */
function runs(program: string): boolean {
  return readdirSync('/proc').some((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === program;
    } catch {
      return false; // Gone meanwhile.
    }
  });
}
