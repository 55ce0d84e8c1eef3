/** Tags of AWS: key -> value. */
export type Tags = Readonly<Record<string, string>>;

/**
 * Keys and values of tags of load balancers:
 * https://docs.aws.amazon.com/cli/latest/reference/elbv2/add-tags.html (2026-11-27).
 */
const ALLOWED = /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u;

/**
 * Why a load balancer cannot have a tag; undefined if it can. In annotations the first `=` ends the key, and a comma ends the
 * value: https://github.com/kubernetes-sigs/aws-load-balancer-controller/blob/225f44568/pkg/annotations/parser.go
 * (2026-11-27).
 */
export function findTagProblem(key: string, value: string): string | undefined {
  if (key.includes('=')) return 'has "=" in its key, which ends the key in the annotation of the load balancer';
  if (ALLOWED.test(key) && ALLOWED.test(value)) return undefined;
  return `is ${JSON.stringify(value)}, but AWS refuses some of the characters for load balancers`;
}

/** An annotation with the tags, `KEY=VALUE,KEY=VALUE`; none if there are no tags. */
export function tagsAnnotation(name: string, tags: Tags): Record<string, string> {
  const list = Object.entries(tags).map(([key, value]) => `${key}=${value}`);
  return list.length === 0 ? {} : { [name]: list.join(',') };
}
