import type { Step } from '../../src/cli/progress';
import { ensureControlPlane, ensureKarpenter } from './kubernetes';
import { ensureCollector } from './otelcol';
import { ensurePrometheus, ensurePromtool } from './promtool';
import { ensureKubernetesPlugin, ensureLanguageHost, ensurePulumi } from './pulumi';
import { ensureKubeconform, ensureKubeScore } from './scanners';

/**
 * Builds the Go programs that the tests of e2e run, one after the other, except those of the long autoscaling loop.
 * @throws UserError if one cannot be built
 */
export async function ensureEngines(step?: Step): Promise<void> {
  await ensureLanguageHost(await ensurePulumi(step), step);
  await ensureKubernetesPlugin(step);
  await ensureControlPlane(step);
  await ensureKarpenter(step);
  await ensurePromtool(step);
  await ensurePrometheus(step);
  await ensureCollector(step);
  await ensureKubeScore(step);
  await ensureKubeconform(step);
}
