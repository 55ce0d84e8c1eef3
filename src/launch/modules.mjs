import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
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
  if (!existsSync(stamp) && isInstalledByNpm(root, lock)) {
    writeFileSync(stamp, wanted);
  } else if (!isInstalled()) {
    const { install } = await import('./install.mjs');
    await install(root, { isInstalled, stamp, wanted });
  }
  return wanted;
}

/**
 * Whether `npm ci` was run by hand and installed what the lock file wants. Another `npm ci` would delete node_modules for a minute,
 * and programs that run meanwhile would fail: Pulumi then reports that its SDK has not been installed.
 */
function isInstalledByNpm(root, lock) {
  const record = join(root, 'node_modules', '.package-lock.json');
  if (!existsSync(record)) return false;
  const { packages: installed = {} } = JSON.parse(readFileSync(record, 'utf8'));
  const { '': own, ...wanted } = JSON.parse(lock).packages ?? {};
  const isSame = ([path, { version, integrity, optional }]) =>
    path in installed
      ? installed[path].version === version && installed[path].integrity === integrity
      : optional === true; // For another platform.
  return (
    own !== undefined && Object.entries(wanted).every(isSame) && Object.keys(installed).every((path) => path in wanted)
  );
}
