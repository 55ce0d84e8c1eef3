import type { Value } from './value';

/** A resource as rules see it. */
export interface Resource {
  /** Pulumi's token: `aws:s3/bucket:Bucket`. */
  type: string;
  /** Its name in the program. */
  name: string;
  urn: string;
  /** Whether Pulumi refuses to delete it. */
  protect: boolean;
  props: Value;
  /** URNs of the resources that the property was made from; those of all, if no property is named. */
  madeFrom(property?: string): readonly string[];
}

/** What is wrong with a resource. */
export interface Finding {
  resource: Resource;
  /** What has the wrong value; where something is missing, the place it belongs to. */
  at: Value;
  /** Instead of "PATH is VALUE". */
  problem?: string;
  /** What is allowed, and what to do, as an order: "set it to ...". */
  fix: string;
}

export type Report = (finding: Finding) => void;

/** Something that has to hold of every stack. Each is mandatory: a preview or an update that breaks it ends. */
export interface Rule {
  /** Unique, and never changed: Pulumi and docs/policy.md tell of a rule by its name. */
  name: string;
  /** What is demanded and why, in a sentence or two. */
  description: string;
  /** Looks at the resources of `types` one by one, before they are made. */
  each?: { types: readonly string[]; check: (resource: Resource, report: Report) => void };
  /** Looks at all resources together, once they are known. */
  stack?: (resources: readonly Resource[], report: Report) => void;
}

/** The sentence about a finding: resource, property, value, and what to do. */
export function describe({ resource, at, problem, fix }: Finding): string {
  const what = problem ?? `${at.path} is ${at.shown()}`;
  return `${resource.type} "${resource.name}": ${what}; ${fix}.`;
}

/** What a rule has to say of these resources, one sentence each. */
export function findings(rule: Rule, resources: readonly Resource[]): string[] {
  const found: string[] = [];
  const report: Report = (finding) => found.push(describe(finding));
  const { each } = rule;
  if (each !== undefined) {
    for (const resource of resources) if (each.types.includes(resource.type)) each.check(resource, report);
  }
  rule.stack?.(resources, report);
  return found;
}

/** The name of the stack that a resource is of. */
export function stackOf({ urn }: Pick<Resource, 'urn'>): string {
  return /^urn:pulumi:([^:]*)::/.exec(urn)?.[1] ?? '';
}

/** Whether the stack is one that others depend on. */
export function isProduction(resource: Pick<Resource, 'urn'>): boolean {
  return /^prod/i.test(stackOf(resource));
}

/**
 * The resources of `type` whose `property` names this one: by the way the program wired them, or by its name.
 * @param names what the property may be, where the wiring is not known
 */
export function belongingTo(
  owner: Resource,
  type: string | readonly string[],
  property: string,
  resources: readonly Resource[],
  names: readonly Value[],
): Resource[] {
  const types = typeof type === 'string' ? [type] : type;
  return resources.filter(
    (resource) =>
      types.includes(resource.type) &&
      (resource.madeFrom(property).includes(owner.urn) ||
        names.some((name) => name.isThere() && resource.props.at(property).is(name.raw))),
  );
}
