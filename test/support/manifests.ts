import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dump } from 'js-yaml';
import type { RegisteredResource } from './registered-stack';

/** An object of Kubernetes. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; labels?: Record<string, string> };
  [field: string]: unknown;
}

/** The objects that a stack asks its cluster for, with the names that Pulumi would give them. */
export function manifestsOf(resources: readonly RegisteredResource[]): Manifest[] {
  return resources
    .filter(({ type, custom }) => custom && type.startsWith('kubernetes:'))
    .map(({ type, state }) => {
      const object = { ...apiOf(type), ...state };
      // Pulumi's own id of it.
      delete object['id'];
      return object as unknown as Manifest;
    });
}

/** `kubernetes:apps/v1:Deployment`; the group `core` has no name. */
function apiOf(type: string): Record<string, unknown> {
  const [, api = '', kind = ''] = type.split(':');
  return { apiVersion: api.replace(/^core\//, ''), kind };
}

/** Writes them as one YAML file each into `directory`; gives the files. */
export function writeManifests(manifests: readonly Manifest[], directory: string): string[] {
  return manifests.map((manifest) => {
    const { kind, metadata } = manifest;
    const file = join(directory, `${kind}-${metadata.name}.yaml`.toLowerCase());
    writeFileSync(file, dump(manifest, { noRefs: true }));
    return file;
  });
}
