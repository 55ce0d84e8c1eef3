import type { Rule } from '../rule';

const STACK = 'pulumi:pulumi:Stack';

/** Resources whose content no rule sees, and what to use instead. */
const HIDDEN: readonly (readonly [type: RegExp, fix: string])[] = [
  [/^kubernetes:(?!core\/v1:ConfigMapPatch$).*Patch$/, 'register the whole object'],
  [/^kubernetes:helm\.sh\/v3:Release$/, 'use kubernetes:helm.sh/v4:Chart, which registers each object'],
  [/^aws-native:/, 'use the provider aws'],
];

export const stackRules: readonly Rule[] = [
  {
    name: 'stack-declares-production',
    description: 'Every stack file sets policy:production to true or false, because other rules depend on it.',
    stack: (resources, report) => {
      const resource = resources.find(({ type }) => type === STACK) ?? resources[0];
      if (resource === undefined || resource.production !== undefined) return;
      const fix = 'run "pulumi config set policy:production true", or false';
      report({ resource, at: resource.props, problem: 'policy:production is not set', fix });
    },
  },
  {
    name: 'stack-has-no-hidden-resources',
    description:
      'No *Patch resource (except of ConfigMaps), Helm Release or resource of aws-native, because the rules do not see what these contain.',
    each: {
      types: new RegExp(HIDDEN.map(([type]) => type.source).join('|')),
      check: (resource, report) => {
        const [, fix] = HIDDEN.find(([type]) => type.test(resource.type)) ?? ['', ''];
        report({ resource, at: resource.props, problem: 'the rules do not see its content', fix });
      },
    },
  },
];
