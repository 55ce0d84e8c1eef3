import * as pulumi from '@pulumi/pulumi';
import { fieldPath, type ProblemList } from '../../src/core/problems';
import { isMapping } from './inputs';

/** Name of the argument that changes children. */
export const TRANSFORM = 'transform';

/** Kind -> what is merged into the arguments of each child of this kind: { Deployment: { metadata: {...} } } */
export type Transform = Readonly<Record<string, unknown>>;

/** Adds a problem for what is no mapping. */
export function checkTransform(given: unknown, problems: ProblemList): void {
  const allowed = 'KIND: { ARGUMENT: VALUE }, such as Deployment: { metadata: { annotations: { team: vision } } }';
  const kinds = Object.entries(isMapping(given) ? given : {});
  const parts = new Map([
    [TRANSFORM, given],
    ...kinds.map(([kind, part]) => [fieldPath(TRANSFORM, kind), part] as const),
  ]);
  for (const [path, part] of parts) if (!isMapping(part)) problems.add(path, 'is not a mapping', { allowed });
}

/** How the types of components of this package begin. They have no arguments and no id. */
const COMPONENT = 'triton-serving:';

/** `Deployment` of kubernetes:apps/v1:Deployment, `Bucket` of aws:s3/bucket:Bucket */
const kindOf = (type: string): string => type.slice(type.lastIndexOf(':') + 1);

/** The child resources of a component: merges `transform` into their arguments, and remembers them. */
export class Children {
  private readonly found = new Map<string, pulumi.Resource>();
  private readonly kinds = new Set<string>();

  constructor(private readonly transform: Transform = {}) {}

  /** The option of the component. */
  readonly watch: pulumi.ResourceTransformation = ({ resource, type, name, props, opts }) => {
    if (type.startsWith(COMPONENT)) return undefined;
    const kind = kindOf(type);
    this.kinds.add(kind);
    this.found.set(`${kind}/${name}`, resource);
    const merged = this.transform[kind];
    return merged === undefined ? undefined : { props: merge(props, merged) as pulumi.Inputs, opts };
  };

  /** `KIND/NAME` -> id of each child, with which the functions `get` of other packages read it. */
  get nodes(): Record<string, pulumi.Output<string>> {
    return Object.fromEntries(
      [...this.found].map(([key, child]) => [key, (child as unknown as { id: pulumi.Output<string> }).id]),
    );
  }

  /** Kinds in `transform` of which there is no child. */
  get unused(): string[] {
    return Object.keys(this.transform).filter((kind) => !this.kinds.has(kind));
  }

  /** The kinds of all children. */
  get all(): string[] {
    return [...this.kinds].sort();
  }
}

/** A JSON merge patch (RFC 7386): mappings are merged, null removes, and all other values replace. */
export function merge(target: unknown, patch: unknown): unknown {
  if (!isMapping(patch)) return patch;
  if (pulumi.Output.isInstance(target)) return target.apply((value) => merge(value, patch));
  const merged: Record<string, unknown> = isMapping(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) Reflect.deleteProperty(merged, key);
    else merged[key] = merge(merged[key], value);
  }
  return merged;
}
