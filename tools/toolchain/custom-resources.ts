import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { downloadModule } from './go';

/** Its go.mod and go.sum pin the modules that the definitions come with. */
const PINS = 'custom-resources';

/** Where the definition of each kind is: the module, and the file in it. */
const DEFINITIONS = {
  ScaledObject: ['github.com/kedacore/keda/v2', 'config/crd/bases/keda.sh_scaledobjects.yaml'],
  ServiceMonitor: [
    'github.com/prometheus-operator/prometheus-operator',
    'example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml',
  ],
  PrometheusRule: [
    'github.com/prometheus-operator/prometheus-operator',
    'example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml',
  ],
} as const;

export type CustomKind = keyof typeof DEFINITIONS;
export const CUSTOM_KINDS = Object.keys(DEFINITIONS) as CustomKind[];

/** The CustomResourceDefinition of a kind, as YAML, from the project that the kind is of. Needs Go, to fetch it. */
export async function customResourceDefinition(kind: CustomKind): Promise<string> {
  const [module, file] = DEFINITIONS[kind];
  const { directory } = await downloadModule(PINS, module);
  return readFileSync(join(directory, file), 'utf8');
}
