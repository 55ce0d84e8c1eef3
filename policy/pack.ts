import type { Policies, PolicyResource, ResourceValidationArgs } from '@pulumi/policy';
import { appliesTo, describe, type Finding, type Resource, type Rule } from './rule';
import { UNKNOWN, Value } from './value';

type GetProduction = (urn: string) => boolean | undefined;

/**
 * Converts the rules to Pulumi's policies.
 * @param getProduction policy:production of the stack of a URN; undefined if it is not set
 */
export function toPolicies(rules: readonly Rule[], getProduction: GetProduction): Policies {
  return rules.flatMap((rule) => {
    const shared = { name: rule.name, description: rule.description, enforcementLevel: 'mandatory' as const };
    const { each, stack } = rule;
    const policies: Policies = [];
    if (each !== undefined) {
      policies.push({
        ...shared,
        validateResource: (args, reportViolation) => {
          if (!appliesTo(each, args.type)) return;
          each.check(getResource(args, getProduction(args.urn)), (finding: Finding) =>
            reportViolation(describe(finding), args.urn),
          );
        },
      });
    }
    if (stack !== undefined) {
      policies.push({
        ...shared,
        validateStack: ({ resources }, reportViolation) => {
          const [first] = resources;
          const production = first && getProduction(first.urn);
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
    // While its cluster does not exist, a preview knows no property of an object. A known object has some.
    props:
      type.startsWith('kubernetes:') && Object.keys(props).length === 0
        ? new Value('', UNKNOWN)
        : Value.ofResource(props),
    madeFrom: (property) => urns(property === undefined ? dependencies : (propertyDependencies[property] ?? [])),
  };
}
