import type { Policies, PolicyResource, ResourceValidationArgs } from '@pulumi/policy';
import { describe, type Finding, type Resource, type Rule } from './rule';
import { Value } from './value';

/** Converts the rules to Pulumi's policies. */
export function toPolicies(rules: readonly Rule[]): Policies {
  return rules.flatMap((rule) => {
    const shared = { name: rule.name, description: rule.description, enforcementLevel: 'mandatory' as const };
    const { each, stack } = rule;
    const policies: Policies = [];
    if (each !== undefined) {
      policies.push({
        ...shared,
        validateResource: (args, reportViolation) => {
          if (!each.types.includes(args.type)) return;
          each.check(getResource(args), (finding: Finding) => reportViolation(describe(finding), args.urn));
        },
      });
    }
    if (stack !== undefined) {
      policies.push({
        ...shared,
        validateStack: ({ resources }, reportViolation) => {
          stack(resources.map(resourceInStack), (finding) => reportViolation(describe(finding), finding.resource.urn));
        },
      });
    }
    return policies;
  });
}

function getResource({ type, name, urn, opts, props }: ResourceValidationArgs): Resource {
  return { type, name, urn, protect: opts.protect, props: Value.ofResource(props), madeFrom: () => [] };
}

function resourceInStack(resource: PolicyResource): Resource {
  const { type, name, urn, opts, props, dependencies, propertyDependencies } = resource;
  const urns = (of: readonly PolicyResource[]): string[] => of.map((dependency) => dependency.urn);
  return {
    type,
    name,
    urn,
    protect: opts.protect,
    props: Value.ofResource(props),
    madeFrom: (property) => urns(property === undefined ? dependencies : (propertyDependencies[property] ?? [])),
  };
}
