const REGION = /^[a-z]{2,4}(-[a-z]+)+-\d{1,2}$/;

/** Zones that belong to another region; empty if the region's name itself is invalid. */
export const zonesElsewhere = (zones: readonly string[], region: string): string[] =>
  REGION.test(region) ? zones.filter((zone) => regionOfZone(zone) !== region) : [];

/** The region of an availability zone: `us-east-1` of `us-east-1a`. */
const regionOfZone = (zone: string): string => zone.replace(/[a-z]$/, '');

/**
 * Checks the form of a region's name. There is no list of regions, because such a list would soon be incomplete.
 * @param zones availability zones of the same stack, from which the intended region is inferred
 * @returns undefined for a name of the right form; `meant` is the region that was probably intended
 */
export function regionFault(name: string, zones: readonly string[] = []): { meant: string | undefined } | undefined {
  if (REGION.test(name)) return undefined;
  const spelling = name
    .toLowerCase()
    .replaceAll('_', '-')
    .replace(/-?(\d+)[a-z]?$/, '-$1');
  const [zone] = zones;
  if (REGION.test(spelling)) return { meant: spelling };
  return { meant: zone === undefined ? undefined : regionOfZone(zone) };
}
