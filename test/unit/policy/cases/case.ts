import type { Resource } from '../../../../policy/rule';
import { UNKNOWN, Value } from '../../../../policy/value';

/** What a rule has to say of a few resources. */
export interface RuleCases {
  /** Each is a stack that the rule has nothing to say of. */
  passes: Readonly<Record<string, readonly Resource[]>>;
  /** Each is a stack with something wrong, and the finding or all findings of the rule. */
  fails: Readonly<Record<string, { stack: readonly Resource[]; says: string | readonly string[] }>>;
}

export type Cases = Readonly<Record<string, RuleCases>>;

interface Options {
  protect?: boolean;
  /** policy:production of the stack; default: false. */
  production?: boolean | undefined;
  /** The resources that a property was made from. */
  wiring?: Readonly<Record<string, Resource>>;
}

/** A resource as a policy gets it. */
export function resource(type: string, name: string, props: object = {}, options: Options = {}): Resource {
  const { protect = false, wiring = {} } = options;
  return {
    type,
    name,
    urn: `urn:pulumi:live::serving::${type}::${name}`,
    protect,
    production: 'production' in options ? options.production : false,
    props: Value.ofResource(props),
    madeFrom: (property) =>
      Object.entries(wiring)
        .filter(([key]) => property === undefined || key === property)
        .map(([, { urn }]) => urn),
  };
}

/** Properties one of which is not known before the update. */
export function withUnknown(props: object, key: string): object {
  return { ...props, [key]: UNKNOWN };
}

/** A copy of `value` in which what lies at `path` is another thing; undefined takes it away. */
export function changed<T extends object>(value: T, path: string, to: unknown): T {
  const copy = structuredClone(value);
  const keys = path.split('.');
  const last = keys.pop() as string;
  const at = keys.reduce((inner, key) => inner[key] as Record<string, unknown>, copy as Record<string, unknown>);
  at[last] = to;
  return copy;
}

export function policyText(statement: object): string {
  return JSON.stringify({ Version: '2012-10-17', Statement: [statement] });
}
