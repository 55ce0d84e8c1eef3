import type { Step } from '../../src/cli/progress';
import { ensureGoProgram } from './go';
import { findOnPath } from '../../src/install/on-path';

/**
 * promtool, which checks Prometheus rules: from PATH, otherwise built once. Its version is not checked, because every
 * version supports our rules, and release 3.N corresponds to version 0.300+N of the module.
 */
export async function ensurePromtool(step?: Step): Promise<string> {
  if (findOnPath('promtool') !== undefined) return 'promtool';
  return ensureGoProgram(
    {
      name: 'promtool',
      pins: 'promtool',
      module: 'github.com/prometheus/prometheus',
      package: 'github.com/prometheus/prometheus/cmd/promtool',
    },
    step,
  );
}
