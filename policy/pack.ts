import type {
  PolicyResource,
  ResourceValidationArgs,
  ResourceValidationPolicy,
  StackValidationPolicy,
} from '@pulumi/policy';
import { Value } from './value';

/** A resource in the form that rules check. */
export interface Resource {
  /** Pulumi's type token: `aws:s3/bucket:Bucket`. */
  type: string;
  name: string;
  urn: string;
  /** Whether Pulumi refuses to delete the resource. */
  protect: boolean;
  props: Value;
  /** Property -> URNs of the resources from which its value comes. Empty for rules that check one resource. */
  sources: Readonly<Record<string, readonly string[]>>;
}

/**
 * Reports a violation.
 * @param at the invalid value, or the place where a value is missing
 * @param fix what to do, as an instruction: "set it to ..."
 * @param problem replaces the text "PATH is VALUE"
 */
export type Report = (at: Value, fix: string, problem?: string) => void;

/** A rule for every stack. All rules are mandatory: a violation fails the preview or update. */
export interface Rule {
  /** Unique and stable, because Pulumi identifies a rule by its name. */
  name: string;
  /** The requirement and its reason, in one or two sentences. */
  description: string;
  applies: readonly string[];
  /** Checks a resource by itself, before it is created. */
  check?: (resource: Resource, report: Report) => void;
  /** Checks a resource among all of the stack: at the end of a preview, and again at the end of an update. */
  checkInStack?: (resource: Resource, report: Report, stack: readonly Resource[]) => void;
}

/** Returns the violations of a rule, one sentence each: resource, property, value, and what to do. */
export function findings(rule: Rule, stack: readonly Resource[]): { resource: Resource; message: string }[] {
  const found: { resource: Resource; message: string }[] = [];
  for (const resource of stack.filter(({ type }) => rule.applies.includes(type))) {
    const report: Report = (at, fix, problem = `${at.path} is ${at.shown()}`) =>
      found.push({ resource, message: `${resource.type} "${resource.name}": ${problem}; ${fix}.` });
    rule.check?.(resource, report);
    rule.checkInStack?.(resource, report, stack);
  }
  return found;
}

export function toPolicy(rule: Rule): ResourceValidationPolicy | StackValidationPolicy {
  const { name, description } = rule;
  const shared = { name, description, enforcementLevel: 'mandatory' as const };
  const validate = (stack: Resource[], report: (message: string, urn?: string) => void): void => {
    for (const { resource, message } of findings(rule, stack)) report(message, resource.urn);
  };
  if (rule.checkInStack === undefined) {
    return { ...shared, validateResource: (resource, report) => validate([toResource(resource)], report) };
  }
  return { ...shared, validateStack: ({ resources }, report) => validate(resources.map(inStack), report) };
}

function toResource({ type, name, urn, opts, props }: ResourceValidationArgs | PolicyResource): Resource {
  return { type, name, urn, protect: opts.protect, props: Value.ofResource(props), sources: {} };
}

function inStack(resource: PolicyResource): Resource {
  const sources = Object.entries(resource.propertyDependencies).map(
    ([property, from]) => [property, from.map(({ urn }) => urn)] as const,
  );
  return { ...toResource(resource), sources: Object.fromEntries(sources) };
}
