import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Step } from '../../src/cli/progress';
import { downloadModule, ensureGoProgram, type GoProgram } from './go';

const KEDA = { pins: 'keda', module: 'github.com/kedacore/keda/v2' };

/** KEDA's programs: the operator queries Prometheus, the adapter is the API server of external metrics. */
export interface KedaPrograms {
  operator: string;
  adapter: string;
}

/** The adapter serves its own metrics on all addresses of the machine. Programs of tests listen on loopback only. */
const LOOPBACK: GoProgram['patches'] = { 'cmd/adapter/main.go': [['fmt.Sprintf(":%v"', 'fmt.Sprintf("127.0.0.1:%v"']] };

export async function ensureKeda(step?: Step): Promise<KedaPrograms> {
  const ensure = (program: 'operator' | 'adapter', patches?: GoProgram['patches']): Promise<string> =>
    ensureGoProgram(
      { name: `keda-${program}`, ...KEDA, package: `${KEDA.module}/cmd/${program}`, ...(patches && { patches }) },
      step,
    );
  return { operator: await ensure('operator'), adapter: await ensure('adapter', LOOPBACK) };
}

/** The definitions of KEDA's kinds, as YAML. */
export async function kedaDefinitions(): Promise<string[]> {
  const { directory } = await downloadModule(KEDA.pins, KEDA.module);
  const folder = join(directory, 'config', 'crd', 'bases');
  return readdirSync(folder).map((file) => readFileSync(join(folder, file), 'utf8'));
}
