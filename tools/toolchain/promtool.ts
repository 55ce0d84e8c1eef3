import type { Step } from '../../src/cli/progress';
import { ensureGoProgram, type GoProgram } from './go';
import { findOnPath } from './on-path';

const program = (name: 'promtool' | 'prometheus'): GoProgram => ({
  name,
  pins: 'promtool',
  module: 'github.com/prometheus/prometheus',
  package: `github.com/prometheus/prometheus/cmd/${name}`,
  // Without the discovery of services in clouds, which tests do not use and whose SDKs take minutes to compile.
  tags: ['remove_all_sd'],
});

/**
 * promtool, which checks Prometheus rules: from PATH, otherwise built once. Its version is not checked, because every
 * version supports our rules, and release 3.N corresponds to version 0.300+N of the module.
 */
export async function ensurePromtool(step?: Step): Promise<string> {
  if (findOnPath('promtool') !== undefined) return 'promtool';
  return ensureGoProgram(program('promtool'), step);
}

/** A Prometheus server of the same release, without its web interface. Its version on PATH may differ, so it is built. */
export function ensurePrometheus(step?: Step): Promise<string> {
  return ensureGoProgram(program('prometheus'), step);
}
