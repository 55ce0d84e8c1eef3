import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import type { Step } from '../../src/cli/progress';
import { cached } from '../../src/install/cache';
import { CUSTOM_KINDS, customResourceDefinition } from './custom-resources';
import { downloadModule } from './go';

/** A JSON schema or a part of one. */
type Schema = Record<string, unknown>;

/** Increase this number if the conversion changes, so that stale schemas in the cache are not used. */
const FORMAT = 1;

/**
 * Returns the path pattern of strict JSON schemas for kubeconform. The schemas are generated from the definitions that
 * Kubernetes, Karpenter, KEDA and the Prometheus operator ship in their Go modules. Downloading requires Go.
 */
export async function ensureKubernetesSchemas(step?: Step): Promise<string> {
  const kubernetes = await downloadModule('kubernetes', 'k8s.io/kubernetes');
  const karpenter = await downloadModule('karpenter', 'sigs.k8s.io/karpenter');
  const name = `kubernetes-schemas-${FORMAT}-${kubernetes.version}-karpenter-${karpenter.version}`;
  const directory = await cached(name, async (target) => {
    step?.update('deriving schemas');
    const swagger = join(kubernetes.directory, 'api', 'openapi-spec', 'swagger.json');
    const { definitions } = JSON.parse(readFileSync(swagger, 'utf8')) as { definitions: Record<string, Schema> };
    const custom = await Promise.all(CUSTOM_KINDS.map(customResourceDefinition));
    custom.push(readFileSync(join(karpenter.directory, 'pkg', 'apis', 'crds', 'karpenter.sh_nodepools.yaml'), 'utf8'));
    const schemas = { ...builtInSchemas(definitions), ...Object.assign({}, ...custom.map(customSchemas)) } as Record<
      string,
      Schema
    >;
    for (const [file, schema] of Object.entries(schemas)) writeFileSync(join(target, file), JSON.stringify(schema));
  });
  return join(directory, '{{ .ResourceKind }}{{ .KindSuffix }}.json');
}

/** The file name that kubeconform requests, such as `deployment-apps-v1.json`. */
function getFile(kind: string, group: string, version: string): string {
  const first = group.split('.')[0] ?? '';
  return `${[kind, first, version].filter((part) => part !== '').join('-')}.json`.toLowerCase();
}

/** A schema for each built-in kind of Kubernetes, with the definitions that it refers to. */
function builtInSchemas(definitions: Readonly<Record<string, Schema>>): Record<string, Schema> {
  const schemas: Record<string, Schema> = {};
  for (const [name, definition] of Object.entries(definitions)) {
    const kinds = definition['x-kubernetes-group-version-kind'] as
      { group: string; version: string; kind: string }[] | undefined;
    const [only, ...others] = kinds ?? [];
    // DeleteOptions and similar kinds belong to every group.
    if (only === undefined || others.length > 0) continue;
    const needed = new Set<string>();
    collect(name, definitions, needed);
    schemas[getFile(only.kind, only.group, only.version)] = {
      $ref: `#/definitions/${name}`,
      definitions: Object.fromEntries([...needed].map((key) => [key, strict(definitions[key] ?? {})])),
    };
  }
  return schemas;
}

/** Adds `name` and all definitions that it refers to, directly or indirectly. */
function collect(name: string, definitions: Readonly<Record<string, Schema>>, found: Set<string>): void {
  if (found.has(name)) return;
  found.add(name);
  for (const [, next] of JSON.stringify(definitions[name] ?? {}).matchAll(/"#\/definitions\/([^"]+)"/g)) {
    collect(next ?? '', definitions, found);
  }
}

/** A schema for each version of a CustomResourceDefinition. */
function customSchemas(text: string): Record<string, Schema> {
  const { spec } = load(text) as {
    spec: {
      group: string;
      names: { kind: string };
      versions: { name: string; schema: { openAPIV3Schema: Schema } }[];
    };
  };
  return Object.fromEntries(
    spec.versions.map(({ name, schema }) => {
      const whole = strict(schema.openAPIV3Schema);
      // CustomResourceDefinitions do not describe metadata; the API server validates it.
      return [getFile(spec.names.kind, spec.group, name), whole];
    }),
  );
}

const NUMBER_OR_TEXT: Schema = { anyOf: [{ type: 'number' }, { type: 'string' }] };

/** Converts an OpenAPI schema to a JSON schema that rejects unknown properties. */
function strict(schema: Schema): Schema {
  const { format, properties, items, additionalProperties, ...rest } = schema;
  const isQuantity = typeof rest['description'] === 'string' && rest['description'].startsWith('Quantity is a fixed-');
  if (format === 'int-or-string' || rest['x-kubernetes-int-or-string'] === true || isQuantity) return NUMBER_OR_TEXT;
  const result: Schema = Object.fromEntries(
    Object.entries(rest).filter(([key]) => !key.startsWith('x-') && key !== 'description' && key !== 'default'),
  );
  for (const key of ['allOf', 'anyOf', 'oneOf']) {
    // The parts in these lists only add constraints to a schema that is already strict.
    if (Array.isArray(result[key])) result[key] = (result[key] as Schema[]).map(loose);
  }
  if (isSchema(items)) result['items'] = strict(items);
  if (isSchema(additionalProperties)) result['additionalProperties'] = strict(additionalProperties);
  if (isSchema(properties)) {
    result['properties'] = Object.fromEntries(
      Object.entries(properties).map(([key, value]) => [key, strict(value as Schema)]),
    );
    const keeps = schema['x-kubernetes-preserve-unknown-fields'] === true || additionalProperties !== undefined;
    if (!keeps) result['additionalProperties'] = false;
  }
  return result;
}

/** Converts a part of a schema that only adds constraints. */
function loose(schema: Schema): Schema {
  return Object.fromEntries(Object.entries(schema).filter(([key]) => !key.startsWith('x-') && key !== 'description'));
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
