const { spawn } = require('node:child_process');
const { join } = require('node:path');
const process = require('node:process');
const { createInterface } = require('node:readline');

/*
 * Runs python/environment.py. This file is CommonJS without dependencies, because the launcher runs the script while npm
 * installs the node modules, and src/install uses the same run.
 */

/** Runs a script with the first Python on PATH that can run it: the script itself then looks for a suitable one. */
const WITH_PYTHON = `
for python in python3 python3.13 python3.12 python3.11 python3.10 python; do
  "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null && exec "$python" -I "$@"
done
exit 127`;

/** The launcher's run, for the command that the launcher starts then. */
const EARLY = Symbol.for('triton-serving.python-set-up');

/** A run of python/environment.py, which ends with this process. */
class PythonSetup {
  detail = '';
  /** @type {(detail: string) => void} */
  onDetail = () => undefined;

  /**
   * @param {string} directory with environment.py
   * @param {readonly string[]} flags
   */
  constructor(directory, flags) {
    this.flags = flags.join(' ');
    this.child = spawn('/bin/sh', ['-c', WITH_PYTHON, 'sh', join(directory, 'environment.py'), ...flags], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const stop = () => this.stop();
    process.once('exit', stop);
    let last = {};
    createInterface({ input: this.child.stdout }).on('line', (line) => {
      last = JSON.parse(line);
      if (last.detail === undefined) return;
      this.detail = last.detail;
      this.onDetail(last.detail);
    });
    this.finished = new Promise((resolve, reject) => {
      const fail = (message, hint) => reject(Object.assign(new Error(message), { hint }));
      this.child.once('error', ({ message }) => fail(`cannot run a shell: ${message}`));
      this.child.once('close', (code, signal) => {
        process.off('exit', stop);
        if (last.result !== undefined) resolve(last.result);
        else if (last.error !== undefined) fail(last.error, last.hint ?? undefined);
        else if (code === 127) fail('no Python found on PATH', 'install Python 3.10 to 3.13 and put it on PATH');
        else fail(`the set-up of the Python environment ended with ${signal ?? `exit code ${code}`}`);
      });
    });
    this.finished.catch(() => undefined); // Another process may ask for it later, or never.
  }

  /** Ends the script with the programs that it runs. */
  stop() {
    this.child.kill();
  }
}

/** Starts a run that the command, which is imported later, can take over. */
exports.startEarly = (directory, flags) => (globalThis[EARLY] = new PythonSetup(directory, flags));

/** Returns the launcher's run, once, or else starts a run. */
exports.takeSetup = (directory, flags) => {
  const early = globalThis[EARLY];
  delete globalThis[EARLY];
  return early ?? new PythonSetup(directory, flags);
};
