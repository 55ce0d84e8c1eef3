import fs from 'node:fs';
import path from 'node:path';
import type { ProblemList } from '../core/problems';
import { displayPath, getReason } from './paths';

/** A file of a model folder that is published. */
export interface SourceFile {
  /** Absolute path on this machine. */
  path: string;
  /** Path in the model folder, with `/`: `1/model.pt`. */
  key: string;
  /** Size in bytes when the folder was read. */
  bytes: number;
}

/** S3 limits keys to 1,024 bytes. The rest is for the prefix and the model's name. */
const LONGEST_KEY_BYTES = 700;

const READABLE_BY_ALL = 0o444;

/** Names that are never published: files of editors and tools, and unfinished writes. `.keep` is ours. */
export const isIgnored = (name: string): boolean =>
  (name.startsWith('.') && name !== '.keep') ||
  /\.tmp(-[^.]*)?$/.test(name) ||
  name.endsWith('~') ||
  name === '__pycache__';

/**
 * Returns the files under `start`, a file or folder of the model folder `root`, ordered by key.
 *
 * Files that cannot be published are added to `problems`: links that leave the model folder or are broken, files that
 * are not regular or not readable, and names that S3 does not accept.
 *
 * Synchronous, because for thousands of small files that takes a fifth of the time.
 *
 * @param root the real path of the model folder, without symbolic links
 * @param start path in the model folder, with `/`
 */
export function readFiles(root: string, start: string, problems: ProblemList): SourceFile[] {
  const reader = new FolderReader(root, problems);
  reader.link(start, new Set([root]));
  return reader.files.sort((a, b) => (a.key < b.key ? -1 : 1));
}

class FolderReader {
  readonly files: SourceFile[] = [];
  constructor(
    private readonly root: string,
    private readonly problems: ProblemList,
  ) {}

  /**
   * Resolves a file, a folder or a link, and reads it if its real path is in the model folder.
   * @param above real paths of the folders that contain it
   */
  link(key: string, above: ReadonlySet<string>): void {
    this.guard(key, (at) => {
      const real = fs.realpathSync(at);
      if (real !== this.root && !real.startsWith(this.root + path.sep)) {
        this.fault(key, `is a link to ${real}, outside the model folder`, 'copy the file here instead');
        return;
      }
      const stat = fs.statSync(real);
      if (stat.isFile()) this.file(key);
      else if (!stat.isDirectory()) this.fault(key, 'is not a regular file', 'remove it');
      else if (above.has(real)) this.fault(key, 'is a link to a folder that contains it', 'remove it');
      else this.folder(key, real, above);
    });
  }

  private folder(key: string, real: string, above: ReadonlySet<string>): void {
    this.guard(key, () => {
      const inside = new Set(above).add(real);
      for (const entry of fs.readdirSync(real, { withFileTypes: true })) {
        const inner = `${key}/${entry.name}`;
        if (isIgnored(entry.name)) continue;
        if (entry.isFile()) this.file(inner);
        else if (entry.isDirectory()) this.folder(inner, path.join(real, entry.name), inside);
        else this.link(inner, inside);
      }
    });
  }

  private file(key: string): void {
    this.guard(key, (at) => {
      const { size, mode } = fs.statSync(at);
      // Checked only for files that are not readable by all, because the call has a cost for each file.
      if ((mode & READABLE_BY_ALL) !== READABLE_BY_ALL) fs.accessSync(at, fs.constants.R_OK);
      if (this.isPublishable(key)) this.files.push({ path: at, key, bytes: size });
    });
  }

  private isPublishable(key: string): boolean {
    const bytes = Buffer.byteLength(key);
    // Control characters, a backslash, or the replacement for bytes that are not UTF-8.
    if (/[\p{Cc}\\\uFFFD]/u.test(key)) this.fault(key, 'has a name that S3 or Triton does not support', 'rename it');
    else if (bytes > LONGEST_KEY_BYTES)
      this.fault(key, `has a path of ${bytes} bytes`, `shorten it to at most ${LONGEST_KEY_BYTES} bytes`);
    else return true;
    return false;
  }

  private guard(key: string, step: (at: string) => void): void {
    try {
      step(path.join(this.root, key));
    } catch (error) {
      this.fault(key, `cannot be read: ${getReason(error)}`);
    }
  }

  private fault(key: string, message: string, hint?: string): void {
    const file = displayPath(path.join(this.root, key));
    this.problems.problems.push({ file, message, hint });
  }
}
