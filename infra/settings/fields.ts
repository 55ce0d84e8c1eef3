import type * as pulumi from '@pulumi/pulumi';

/** Describes one value of the configuration. `description` is a sentence; `allowed` is printed after "allowed:". */
interface Described {
  readonly description: string;
}

/** The reason why a text is invalid, which is printed after its value, and what to do about it. */
export interface TextFault {
  reason: string;
  hint?: string;
}

/** Returns undefined for a valid text. */
export type TextCheck = (text: string) => TextFault | undefined;

interface StringField extends Described {
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

interface ChoiceField extends Described {
  readonly kind: 'choice';
  readonly choices: readonly string[];
  readonly default?: string;
}

interface IntegerField extends Described {
  readonly kind: 'integer';
  readonly minimum: number;
  readonly maximum: number;
  /** Set if only some of the numbers in the range are allowed. */
  readonly choices?: readonly number[];
  readonly default?: number;
}

/** A fraction. Only a member of a mapping, because Pulumi.yaml has no type for it. */
interface NumberField extends Described {
  readonly kind: 'number';
  readonly minimum: number;
  readonly maximum: number;
}

interface IntegerArrayField extends Described {
  readonly kind: 'integerArray';
  readonly default?: readonly number[];
  /** Limits of each number. */
  readonly minimum: number;
  readonly maximum: number;
}

interface BooleanField extends Described {
  readonly kind: 'boolean';
  readonly default?: boolean;
}

interface StringArrayField extends Described {
  readonly kind: 'stringArray';
  readonly default?: readonly string[];
  /** Pattern of each text. */
  readonly pattern?: RegExp;
  readonly check?: TextCheck;
  readonly choices?: readonly string[];
  readonly allowed?: string;
  /** The argument of a component, and each of its texts, may be an output of another resource. */
  readonly input?: true;
}

interface StringMapField extends Described {
  readonly kind: 'stringMap';
  /** The values may be encrypted in the stack file, and then stay so. */
  readonly secret?: true;
  /** The values in the argument of a component may be outputs of other resources. */
  readonly input?: true;
}

interface ObjectField extends Described {
  readonly kind: 'object';
  readonly fields: Fields;
}

interface ObjectArrayField extends Described {
  readonly kind: 'objectArray';
  readonly fields: Fields;
}

export type Field = (
  | StringField
  | ChoiceField
  | IntegerField
  | NumberField
  | IntegerArrayField
  | BooleanField
  | StringArrayField
  | StringMapField
  | ObjectField
  | ObjectArrayField
) & {
  /** May be omitted although it has no default. */
  readonly optional?: true;
};

export type Fields = Readonly<Record<string, Field>>;

/** A text, or with `In` one that may be an output. */
type Text<F, In> = [In, F] extends [true, { input: true }] ? pulumi.Input<string> : string;

type Texts<F, In> = [In, F] extends [true, { input: true }] ? pulumi.Input<pulumi.Input<string>[]> : string[];

type Given<F extends Field, In> = F extends { kind: 'string' }
  ? Text<F, In>
  : F extends { kind: 'choice'; choices: readonly (infer C)[] }
    ? C
    : F extends { kind: 'integer' | 'number' }
      ? number
      : F extends { kind: 'integerArray' }
        ? number[]
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
