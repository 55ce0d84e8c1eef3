import type { Step } from '../../src/cli/progress';
import { ensureGoProgram } from './go';

/** An OpenTelemetry collector with our selection of components (main.go). Only for tests. */
export function ensureCollector(step?: Step): Promise<string> {
  return ensureGoProgram(
    { name: 'otelcol', pins: 'otelcol', module: 'go.opentelemetry.io/collector/otelcol', package: '.' },
    step,
  );
}
