import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { downloadModule } from './go';

/** Folder whose go.mod and go.sum pin the modules with the definitions. */
const PINS = 'custom-resources';

/** The module and file of each kind's definition. */
const DEFINITIONS = {
  ScaledObject: ['github.com/kedacore/keda/v2', 'config/crd/bases/keda.sh_scaledobjects.yaml'],
  ServiceMonitor: [
    'github.com/prometheus-operator/prometheus-operator',
    'example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml',
  ],
  PodMonitor: [
    'github.com/prometheus-operator/prometheus-operator',
    'example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml',
  ],
  PrometheusRule: [
    'github.com/prometheus-operator/prometheus-operator',
    'example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml',
  ],
} as const;

export type CustomKind = keyof typeof DEFINITIONS;
export const CUSTOM_KINDS = Object.keys(DEFINITIONS) as CustomKind[];

/**
 * Returns the CustomResourceDefinition of a kind as YAML, from the project that defines it. Downloading requires Go.
 */
export async function customResourceDefinition(kind: CustomKind): Promise<string> {
  const [module, file] = DEFINITIONS[kind];
  const { directory } = await downloadModule(PINS, module);
  return readFileSync(join(directory, file), 'utf8');
}
