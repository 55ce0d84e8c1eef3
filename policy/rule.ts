import type { Value } from './value';

/** A resource in the form that rules check. */
export interface Resource {
  /** Pulumi's type token: `aws:s3/bucket:Bucket`. */
  type: string;
  /** Name of the resource in the program. */
  name: string;
  urn: string;
  /** Whether Pulumi refuses to delete the resource. */
  protect: boolean;
  /** Whether its stack is a production stack; undefined if the stack file does not set policy:production. */
  production: boolean | undefined;
  props: Value;
  /** URNs of the resources that the property depends on; without a property, all dependencies. */
  madeFrom(property?: string): readonly string[];
}

/** A violation of a rule. */
export interface Finding {
  resource: Resource;
  /** The invalid value, or the place where a value is missing. */
  at: Value;
  /** Replaces the text "PATH is VALUE". */
  problem?: string;
  /** What to do, as an instruction: "set it to ...". */
  fix: string;
}

export type Report = (finding: Finding) => void;

/** A rule for every stack. All rules are mandatory: a violation fails the preview or update. */
export interface Rule {
  /** Unique and stable, because Pulumi and docs/policy.md identify a rule by its name. */
  name: string;
  /** The requirement and its reason, in one or two sentences. */
  description: string;
  /** Checks each resource of these `types` by itself, before it is created. A pattern matches several types. */
  each?: { types: readonly string[] | RegExp; check: (resource: Resource, report: Report) => void };
  /** Checks all resources together: at the end of a preview, and again at the end of an update. */
  stack?: (resources: readonly Resource[], report: Report) => void;
}

/** Describes a finding in a sentence: resource, property, value, and what to do. */
export function describe({ resource, at, problem, fix }: Finding): string {
  const what = problem ?? `${at.path} is ${at.shown()}`;
  return `${resource.type} "${resource.name}": ${what}; ${fix}.`;
}

/** Returns the violations of a rule, one sentence each. */
export function findings(rule: Rule, resources: readonly Resource[]): string[] {
  const found: string[] = [];
  const report: Report = (finding) => found.push(describe(finding));
  const { each } = rule;
  if (each !== undefined) {
    for (const resource of resources) if (appliesTo(each, resource.type)) each.check(resource, report);
  }
  rule.stack?.(resources, report);
  return found;
}

/** Whether a rule checks resources of a type. */
export function appliesTo({ types }: NonNullable<Rule['each']>, type: string): boolean {
  return types instanceof RegExp ? types.test(type) : types.includes(type);
}

/**
 * Returns the resources of `type` whose `property` refers to the owner, by a dependency in the program or by the
 * owner's name.
 * @param names possible values of the property, for references that are not dependencies
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
