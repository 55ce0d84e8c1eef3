import { resource, type Cases } from './case';

const STACK = 'pulumi:pulumi:Stack';
const DEPLOYMENT = 'kubernetes:apps/v1:Deployment';

const hidden = (type: string, fix: string) => ({
  stack: [resource(type, 'one')],
  says: `${type} "one": the rules do not see its content; ${fix}.`,
});

export const stackCases: Cases = {
  'stack-declares-production': {
    passes: {
      true: [resource(STACK, 'live', {}, { production: true })],
      false: [resource(STACK, 'prod', {}, { production: false })],
      'no resource': [],
    },
    fails: {
      'not declared': {
        stack: [resource(DEPLOYMENT, 'one'), resource(STACK, 'live', {}, { production: undefined })],
        says: `${STACK} "live": policy:production is not set; run "pulumi config set policy:production true", or false.`,
      },
    },
  },
  'stack-has-no-hidden-resources': {
    passes: {
      'a whole object': [resource(DEPLOYMENT, 'one')],
      'a patch of a ConfigMap, which no rule checks': [resource('kubernetes:core/v1:ConfigMapPatch', 'one')],
      'a chart': [resource('kubernetes:helm.sh/v4:Chart', 'one')],
    },
    fails: {
      'a patch': hidden('kubernetes:apps/v1:DeploymentPatch', 'register the whole object'),
      'a release': hidden(
        'kubernetes:helm.sh/v3:Release',
        'use kubernetes:helm.sh/v4:Chart, which registers each object',
      ),
      'another provider': hidden('aws-native:s3:Bucket', 'use the provider aws'),
    },
  },
};
