import type { Step } from '../../src/cli/progress';
import { ensureGoProgram } from './go';
import { findOnPath } from '../../src/install/on-path';

/**
 * Prometheus' own checker of rules: the one on PATH, else one that is built once. Releases of Prometheus are numbered
 * 3.N and its module 0.300+N, so a version is not asked for: every one reads the rules that there are here.
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
