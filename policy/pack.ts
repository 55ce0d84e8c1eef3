import type { Policies, PolicyResource, ResourceValidationArgs } from '@pulumi/policy';
import { appliesTo, describe, type Finding, type Resource, type Rule } from './rule';
import { Value } from './value';

/**
 * Converts the rules to Pulumi's policies.
 * @param production policy:production of the stack file; undefined if it is not set
 */
export function toPolicies(rules: readonly Rule[], production: boolean | undefined): Policies {
  return rules.flatMap((rule) => {
    const shared = { name: rule.name, description: rule.description, enforcementLevel: 'mandatory' as const };
    const { each, stack } = rule;
    const policies: Policies = [];
    if (each !== undefined) {
      policies.push({
        ...shared,
        validateResource: (args, reportViolation) => {
          if (!appliesTo(each, args.type)) return;
          each.check(getResource(args, production), (finding: Finding) => reportViolation(describe(finding), args.urn));
        },
      });
    }
    if (stack !== undefined) {
      policies.push({
        ...shared,
        validateStack: ({ resources }, reportViolation) => {
          const all = resources.map((resource) => resourceInStack(resource, production));
          stack(all, (finding) => reportViolation(describe(finding), finding.resource.urn));
        },
      });
    }
    return policies;
  });
}

function getResource(
  { type, name, urn, opts, props }: ResourceValidationArgs,
  production: boolean | undefined,
): Resource {
  return { type, name, urn, protect: opts.protect, production, props: Value.ofResource(props), madeFrom: () => [] };
}

function resourceInStack(resource: PolicyResource, production: boolean | undefined): Resource {
  const { type, name, urn, opts, props, dependencies, propertyDependencies } = resource;
  const urns = (of: readonly PolicyResource[]): string[] => of.map((dependency) => dependency.urn);
  return {
    type,
    name,
    urn,
    protect: opts.protect,
    production,
    props: Value.ofResource(props),
    madeFrom: (property) => urns(property === undefined ? dependencies : (propertyDependencies[property] ?? [])),
  };
}
