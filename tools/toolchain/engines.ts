import type { Step } from '../../src/cli/progress';
import { ensureControlPlane, ensureKarpenter } from './kubernetes';
import { ensurePrometheus, ensurePromtool } from './promtool';
import { ensureKubernetesPlugin, ensureLanguageHost, ensureOtherHost, ensurePulumi, USUAL_LANGUAGES } from './pulumi';

/** The Go programs that the tests of e2e run, except those of their long form. */
const ENGINES: readonly ((step?: Step) => Promise<unknown>)[] = [
  async (step) => ensureLanguageHost(await ensurePulumi(step), step),
  ...USUAL_LANGUAGES.map(
    (language) => async (step?: Step) => ensureOtherHost(await ensurePulumi(step), language, step),
  ),
  ensureKubernetesPlugin,
  ensureControlPlane,
  ensureKarpenter,
  ensurePromtool,
  ensurePrometheus,
];

/**
 * Builds them one after the other, also if one fails.
 * @throws AggregateError with the reasons if some cannot be built
 */
export async function ensureEngines(step?: Step): Promise<void> {
  const failures: unknown[] = [];
  for (const ensure of ENGINES) await ensure(step).catch((error: unknown) => failures.push(error));
  if (failures.length > 0) throw new AggregateError(failures, failures.map(String).join('; '));
}
