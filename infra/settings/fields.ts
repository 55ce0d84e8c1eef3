/** What one value of the configuration may be. `description` is a sentence; `allowed` is read after "allowed:". */
interface Described {
  readonly description: string;
}

/** What is wrong with a text, to be read behind its value, and what to do about it. */
export interface TextFault {
  reason: string;
  hint?: string;
}

/** Undefined: nothing is wrong. */
type TextCheck = (text: string) => TextFault | undefined;

interface TextField extends Described {
  readonly kind: 'text';
  /** An empty text is one that was not given. */
  readonly default?: string;
  readonly pattern?: RegExp;
  readonly check?: TextCheck;
  readonly allowed?: string;
  /** It has to be encrypted in the stack file, and is never shown. */
  readonly secret?: true;
  /** Of a secret: whether a value of it is none, such as a path. */
  readonly isPublic?: (text: string) => boolean;
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
  /** Where only some of the numbers between are allowed. */
  readonly choices?: readonly number[];
  readonly default?: number;
}

interface FlagField extends Described {
  readonly kind: 'flag';
  readonly default?: boolean;
}

interface TextsField extends Described {
  readonly kind: 'texts';
  readonly default?: readonly string[];
  /** Of each text. */
  readonly pattern?: RegExp;
  readonly check?: TextCheck;
  readonly choices?: readonly string[];
  readonly allowed?: string;
}

interface MapField extends Described {
  readonly kind: 'map';
}

interface ObjectField extends Described {
  readonly kind: 'object';
  readonly fields: Fields;
}

interface ObjectsField extends Described {
  readonly kind: 'objects';
  readonly fields: Fields;
}

export type Field = (
  TextField | ChoiceField | IntegerField | FlagField | TextsField | MapField | ObjectField | ObjectsField
) & {
  /** May be left out although it has no default. */
  readonly optional?: true;
};

export type Fields = Readonly<Record<string, Field>>;

type Given<F extends Field> = F extends { kind: 'text' }
  ? string
  : F extends { kind: 'choice'; choices: readonly (infer C)[] }
    ? C
    : F extends { kind: 'integer' }
      ? number
      : F extends { kind: 'flag' }
        ? boolean
        : F extends { kind: 'texts'; choices: readonly (infer C)[] }
          ? C[]
          : F extends { kind: 'texts' }
            ? string[]
            : F extends { kind: 'map' }
              ? Record<string, string>
              : F extends { kind: 'object'; fields: infer G extends Fields }
                ? Values<G>
                : F extends { kind: 'objects'; fields: infer G extends Fields }
                  ? Values<G>[]
                  : never;

type OptionalNames<T extends Fields> = { [K in keyof T]: T[K] extends { optional: true } ? K : never }[keyof T];

/** What reading fields gives: the type follows from the table, so the two cannot disagree. */
export type Values<T extends Fields> = {
  -readonly [K in Exclude<keyof T, OptionalNames<T>>]: Given<T[K]>;
} & {
  -readonly [K in OptionalNames<T>]?: Given<T[K]>;
};
