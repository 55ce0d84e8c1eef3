import { builtInSchemas, customSchemas } from '../../../tools/toolchain/kubernetes-schemas';

const QUANTITY = { type: 'string', description: 'Quantity is a fixed-point representation of a number.' };

test('a kind of Kubernetes gets a strict schema with the types to which it refers', () => {
  const schemas = builtInSchemas({
    'io.Widget': {
      type: 'object',
      description: 'A widget.',
      required: ['size'],
      properties: {
        size: { $ref: '#/definitions/io.Quantity', description: 'How large.' },
        port: { type: 'string', format: 'int-or-string' },
        labels: { type: 'object', additionalProperties: { type: 'string' } },
        parts: { type: 'array', items: { $ref: '#/definitions/io.Part' } },
      },
      'x-kubernetes-group-version-kind': [{ group: 'apps.k8s.io', version: 'v1', kind: 'Widget' }],
    },
    'io.Part': { type: 'object', properties: { name: { type: 'string' } } },
    'io.Quantity': QUANTITY,
    'io.Unused': { type: 'object' },
    'io.DeleteOptions': {
      type: 'object',
      'x-kubernetes-group-version-kind': [
        { group: '', version: 'v1', kind: 'DeleteOptions' },
        { group: 'apps', version: 'v1', kind: 'DeleteOptions' },
      ],
    },
  });
  const either = { anyOf: [{ type: 'number' }, { type: 'string' }] };
  expect(schemas).toEqual({
    'widget-apps-v1.json': {
      $ref: '#/definitions/io.Widget',
      definitions: {
        'io.Widget': {
          type: 'object',
          required: ['size'],
          additionalProperties: false,
          properties: {
            size: { $ref: '#/definitions/io.Quantity' },
            port: either,
            labels: { type: 'object', additionalProperties: { type: 'string' } },
            parts: { type: 'array', items: { $ref: '#/definitions/io.Part' } },
          },
        },
        'io.Part': { type: 'object', additionalProperties: false, properties: { name: { type: 'string' } } },
        'io.Quantity': either,
      },
    },
  });
});

test('a custom kind gets one schema for each version, and open fields stay open', () => {
  const definition = {
    spec: {
      group: 'karpenter.sh',
      names: { kind: 'NodePool' },
      versions: [
        {
          name: 'v1',
          schema: {
            openAPIV3Schema: {
              type: 'object',
              properties: {
                metadata: { type: 'object' },
                spec: {
                  type: 'object',
                  properties: { limit: { 'x-kubernetes-int-or-string': true, pattern: '^\\d+$' } },
                },
                any: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true, properties: { a: {} } },
              },
            },
          },
        },
      ],
    },
  };
  expect(customSchemas(JSON.stringify(definition))).toEqual({
    'nodepool-karpenter-v1.json': {
      type: 'object',
      additionalProperties: false,
      properties: {
        metadata: { type: 'object' },
        spec: {
          type: 'object',
          additionalProperties: false,
          properties: { limit: { anyOf: [{ type: 'number' }, { type: 'string' }] } },
        },
        any: { type: 'object', properties: { a: {} } },
      },
    },
  });
});
