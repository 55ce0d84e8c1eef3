import type { PolicyResource, ResourceValidationArgs } from '@pulumi/policy';
import { toPolicy } from '../../policy/pack';
import { rules } from '../../policy/rules';
import type { RegisteredResource } from './registered-stack';

/** Runs a rule of the policy pack on a stack, through the policy that Pulumi gets. Returns the messages. */
export function violations(name: string, stack: readonly RegisteredResource[]): string[] {
  const rule = rules.find((one) => one.name === name);
  if (rule === undefined) throw new Error(`no rule ${name}`);
  const policy = toPolicy(rule);
  const said: string[] = [];
  const report = (message: string, urn?: string): void => void said.push(`${message}${urn === undefined ? '?' : ''}`);
  const resources = stack.map(({ type, name: of, urn, protect, inputs, propertyDependencies }) => ({
    ...{ type, name: of, urn, opts: { protect } },
    props: inputs,
    propertyDependencies: Object.fromEntries(
      Object.entries(propertyDependencies).map(([key, urns]) => [key, urns.map((one) => ({ urn: one }))]),
    ),
  }));
  if ('validateStack' in policy) {
    void policy.validateStack({ resources: resources as unknown as PolicyResource[] } as never, report);
  } else {
    const { validateResource } = policy;
    if (typeof validateResource !== 'function') throw new Error('one function is expected');
    for (const one of resources) void validateResource(one as unknown as ResourceValidationArgs, report);
  }
  return said;
}
