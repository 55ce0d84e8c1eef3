import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Makes sure that node_modules matches package-lock.json.
 * @returns {Promise<string>} digest of the lock file and of Node's ABI, which identifies the installed modules
 */
export async function installedModules(root) {
  const lock = readFileSync(join(root, 'package-lock.json'));
  const wanted = createHash('sha256').update(lock).update(process.versions.modules).digest('hex');
  const stamp = join(root, 'node_modules', '.installed-lock');
  const isInstalled = () => existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted;
  if (!isInstalled()) {
    const { install } = await import('./install.mjs');
    await install(root, { isInstalled, stamp, wanted });
  }
  return wanted;
}
