import type * as pulumi from '@pulumi/pulumi';

/** The reason why a text is invalid, which is printed after its value, and what to do about it. */
export interface TextFault {
  reason: string;
  hint?: string;
}

/** Returns undefined for a valid text. */
export type TextCheck = (text: string) => TextFault | undefined;

interface StringField {
  readonly kind: 'string';
  /** An empty text counts as missing. */
  readonly default?: string;
  readonly pattern?: RegExp;
  readonly check?: TextCheck;
  readonly allowed?: string;
  /** The value must be encrypted in the stack file, and is never printed. */
  readonly secret?: true;
  /** For a secret: whether a value is not secret, such as a path. */
  readonly isPublic?: (text: string) => boolean;
  /** The argument of a component may be an output of another resource, which is not checked. */
  readonly input?: true;
}

interface ChoiceField {
  readonly kind: 'choice';
  readonly choices: readonly string[];
  readonly default?: string;
}

interface IntegerField {
  readonly kind: 'integer';
  readonly minimum: number;
  readonly maximum: number;
  /** Set if only some of the numbers in the range are allowed. */
  readonly choices?: readonly number[];
  readonly default?: number;
}

/** A fraction. Only a member of a mapping, because Pulumi.yaml has no type for it. */
interface NumberField {
  readonly kind: 'number';
  readonly minimum: number;
  readonly maximum: number;
  readonly default?: number;
}

interface BooleanField {
  readonly kind: 'boolean';
  readonly default?: boolean;
}

interface StringArrayField {
  readonly kind: 'stringArray';
  readonly default?: readonly string[];
  readonly pattern?: RegExp;
  readonly check?: TextCheck;
  readonly choices?: readonly string[];
  readonly allowed?: string;
  /** The argument of a component, and each of its texts, may be an output of another resource. */
  readonly input?: true;
}

/** The form of the names or values of a mapping. */
export interface TextForm {
  readonly pattern: RegExp;
  readonly allowed: string;
}

interface StringMapField {
  readonly kind: 'stringMap';
  readonly default?: Readonly<Record<string, string>>;
  readonly names?: TextForm;
  readonly values?: TextForm;
  /** The values may be encrypted in the stack file, and then stay so. As an argument of a component they must not be secret. */
  readonly secret?: true;
  /** The values in the argument of a component may be outputs of other resources. */
  readonly input?: true;
}

/** If no member is required, a missing mapping has the defaults of its members, unless it is optional. */
interface ObjectField {
  readonly kind: 'object';
  readonly fields: Fields;
}

interface ObjectArrayField {
  readonly kind: 'objectArray';
  readonly fields: Fields;
}

/** One value of the configuration. `description` is a sentence; `allowed` is printed after "allowed:". */
export type Field = (
  | StringField
  | ChoiceField
  | IntegerField
  | NumberField
  | BooleanField
  | StringArrayField
  | StringMapField
  | ObjectField
  | ObjectArrayField
) & {
  readonly description: string;
  /** May be omitted although it has no default. */
  readonly optional?: true;
};

export type Fields = Readonly<Record<string, Field>>;

/** The options of a row: all that its kind has, but for the sentence and the members. */
type Options<K extends Field['kind']> = Omit<Extract<Field, { kind: K }>, 'kind' | 'description' | 'fields'>;

type Only<R, K extends Field['kind']> = R & Record<Exclude<keyof R, keyof Options<K>>, never>;

/** A row as it was written. `NoInfer`, so that its type comes from its options alone, not from the table around it. */
type Row<K, R> = { kind: K; description: string } & NoInfer<R>;

/** Makes the function that writes a row of one kind. */
const row =
  <const K extends Field['kind']>(kind: K) =>
  <const R extends Options<K>>(description: string, options?: Only<R, K>): Row<K, R> =>
    ({ kind, description, ...options }) as Row<K, R>;

const rowWithMembers =
  <const K extends 'object' | 'objectArray'>(kind: K) =>
  <const F extends Fields, const R extends Options<K>>(
    description: string,
    fields: F,
    options?: Only<R, K>,
  ): Row<K, R> & { fields: NoInfer<F> } =>
    ({ kind, description, fields, ...options }) as Row<K, R> & { fields: NoInfer<F> };

export const text = row('string');
export const choice = row('choice');
export const integer = row('integer');
export const number = row('number');
export const flag = row('boolean');
export const texts = row('stringArray');
export const map = row('stringMap');
export const group = rowWithMembers('object');
export const list = rowWithMembers('objectArray');

/** The fields whose values stay secret, by their paths: `s3.secretAccessKey`. */
export const secretFields = (fields: Fields): [path: string, field: Field][] =>
  Object.entries(fields).flatMap(([name, field]) => {
    if (field.kind !== 'object') return 'secret' in field ? [[name, field]] : [];
    return secretFields(field.fields).map(([path, inner]): [string, Field] => [`${name}.${path}`, inner]);
  });

/** A text, or with `In` one that may be an output. */
type Text<F, In> = [In, F] extends [true, { input: true }] ? pulumi.Input<string> : string;

type Texts<F, In> = [In, F] extends [true, { input: true }] ? pulumi.Input<pulumi.Input<string>[]> : string[];

type Given<F extends Field, In> = F extends { kind: 'string' }
  ? Text<F, In>
  : F extends { kind: 'choice'; choices: readonly (infer C)[] }
    ? C
    : F extends { kind: 'integer' | 'number' }
      ? number
      : F extends { kind: 'boolean' }
        ? boolean
        : F extends { kind: 'stringArray'; choices: readonly (infer C)[] }
          ? C[]
          : F extends { kind: 'stringArray' }
            ? Texts<F, In>
            : F extends { kind: 'stringMap' }
              ? Record<string, Text<F, In>>
              : F extends { kind: 'object'; fields: infer G extends Fields }
                ? Values<G, In>
                : F extends { kind: 'objectArray'; fields: infer G extends Fields }
                  ? Values<G, In>[]
                  : never;

type OptionalNames<T extends Fields> = { [K in keyof T]: T[K] extends { optional: true } ? K : never }[keyof T];

/**
 * The type of the values of a table of fields. It is derived from the table, so the two cannot disagree. With `In` it is that
 * of the arguments of a component, some of which may be outputs.
 */
export type Values<T extends Fields, In = false> = {
  -readonly [K in Exclude<keyof T, OptionalNames<T>>]: Given<T[K], In>;
} & {
  -readonly [K in OptionalNames<T>]?: Given<T[K], In>;
};

/** Names of the members that must be given: they have no default, and nothing stands for their absence. */
type RequiredNames<T extends Fields> = {
  [K in keyof T]: T[K] extends { optional: true } | { default: unknown } | { kind: 'stringMap' | 'objectArray' }
    ? never
    : T[K] extends { kind: 'object'; fields: infer G extends Fields }
      ? [RequiredNames<G>] extends [never]
        ? never
        : K
      : K;
}[keyof T];

type Argument<F extends Field> = F extends { kind: 'object'; fields: infer G extends Fields }
  ? Arguments<G>
  : F extends { kind: 'objectArray'; fields: infer G extends Fields }
    ? Arguments<G>[]
    : Given<F, true>;

/** The type of the arguments of a component, which `readFields` completes with the defaults. */
export type Arguments<T extends Fields> = {
  -readonly [K in RequiredNames<T>]: Argument<T[K]>;
} & {
  -readonly [K in Exclude<keyof T, RequiredNames<T>>]?: Argument<T[K]> | undefined;
};
