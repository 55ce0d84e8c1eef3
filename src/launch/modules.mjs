import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Stands in the stamp after the digest if the development packages are not installed. */
const WITHOUT_DEVELOPMENT = ' without development packages';

/**
 * Makes sure that node_modules matches package-lock.json.
 * @param {{ development?: boolean, startPython?: () => import('./python.cjs').PythonSetup | undefined }} options
 *   `development`: also the development packages; `startPython` starts what can run beside an installation
 * @returns {Promise<string>} digest of the lock file and of Node's ABI, which identifies the installed modules
 */
export async function installedModules(root, { development = true, startPython } = {}) {
  const lock = readFileSync(join(root, 'package-lock.json'));
  const digest = createHash('sha256').update(lock).update(process.versions.modules).digest('hex');
  const stamp = join(root, 'node_modules', '.installed-lock');
  const wanted = development ? digest : digest + WITHOUT_DEVELOPMENT;
  const read = () => (existsSync(stamp) ? readFileSync(stamp, 'utf8') : undefined);
  const isInstalled = () => [digest, wanted].includes(read());
  if (!existsSync(stamp) && isInstalledByNpm(root, lock, { development })) {
    writeFileSync(stamp, wanted);
  } else if (!isInstalled()) {
    const { install } = await import('./install.mjs');
    const isPart = () => read() === digest + WITHOUT_DEVELOPMENT;
    await install(root, { isInstalled, isPart, development, startPython, finish: () => writeFileSync(stamp, wanted) });
  }
  return digest;
}

/**
 * Whether `npm ci` was run by hand and installed what the lock file wants. Another `npm ci` would delete node_modules for a minute,
 * and programs that run meanwhile would fail: Pulumi then reports that its SDK has not been installed.
 */
function isInstalledByNpm(root, lock, { development }) {
  const record = join(root, 'node_modules', '.package-lock.json');
  if (!existsSync(record)) return false;
  const { packages: installed = {} } = JSON.parse(readFileSync(record, 'utf8'));
  const { '': own, ...wanted } = JSON.parse(lock).packages ?? {};
  const isSame = ([path, { version, integrity, optional, dev }]) =>
    path in installed
      ? installed[path].version === version && installed[path].integrity === integrity
      : optional === true || (dev === true && !development); // Optional: for another platform.
  return (
    own !== undefined && Object.entries(wanted).every(isSame) && Object.keys(installed).every((path) => path in wanted)
  );
}
