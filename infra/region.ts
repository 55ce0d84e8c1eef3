const REGION = /^[a-z]{2,4}(-[a-z]+)+-\d{1,2}$/;

/** Those of the zones that another region has; none where the name of the region itself is wrong. */
export const zonesElsewhere = (zones: readonly string[], region: string): string[] =>
  REGION.test(region) ? zones.filter((zone) => regionOfZone(zone) !== region) : [];

/** The region of an availability zone: `us-east-1` of `us-east-1a`. */
const regionOfZone = (zone: string): string => zone.replace(/[a-z]$/, '');

/**
 * What is wrong with the name of a region. Only its form is checked: a list of all regions would soon lack one.
 * @param zones availability zones of the same stack, which tell the region that is meant
 * @returns undefined for a name of the right form; `meant` is the region that was probably meant
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
