import type { ProblemList } from '../../src/core/problems';
import { zonesElsewhere } from '../region';

/** Reports zones that are not in the region of the stack. */
export function checkZonesOfRegion(
  field: string,
  zones: readonly string[],
  region: string | undefined,
  problems: ProblemList,
): void {
  const elsewhere = region === undefined ? [] : zonesElsewhere(zones, region);
  if (elsewhere.length === 0) return;
  problems.add(field, `has ${elsewhere.join(', ')}, but aws:region is ${region}`, {
    allowed: `zones of ${region}, "${region}a"`,
  });
}
