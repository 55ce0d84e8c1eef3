import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dump } from 'js-yaml';
import type { RegisteredResource } from './registered-stack';

/** A Kubernetes object. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; labels?: Record<string, string> };
  [field: string]: unknown;
}

/** The Kubernetes objects of a stack, with the names that Pulumi would generate. */
export function getManifests(resources: readonly RegisteredResource[]): Manifest[] {
  return resources
    .filter(({ type, custom }) => custom && type.startsWith('kubernetes:'))
    .map(({ type, state }) => {
      const object = { ...getApi(type), ...state };
      // Pulumi's id, which is not part of the object.
      delete object['id'];
      return object as unknown as Manifest;
    });
}

/** apiVersion and kind of a type such as `kubernetes:apps/v1:Deployment`. The group `core` is omitted in apiVersion. */
function getApi(type: string): Record<string, unknown> {
  const [, api = '', kind = ''] = type.split(':');
  return { apiVersion: api.replace(/^core\//, ''), kind };
}

/**
 * Writes each manifest as a YAML file into `directory`.
 * @returns the files
 */
export function writeManifests(manifests: readonly Manifest[], directory: string): string[] {
  return manifests.map((manifest) => {
    const { kind, metadata } = manifest;
    const file = join(directory, `${kind}-${metadata.name}.yaml`.toLowerCase());
    writeFileSync(file, dump(manifest, { noRefs: true }));
    return file;
  });
}
