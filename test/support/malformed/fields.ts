import protobuf from 'protobufjs/light';
import { modelConfigType } from '../../../src/model/model-config';
import type { Fields } from './case';

/** A configuration with one field that cannot be read. */
export interface WrongField {
  name: string;
  language: 'model.yaml' | 'config.pbtxt';
  text: string;
  /** Beginning of the only problem, without the name of the file; or a pattern. */
  problem: string | RegExp;
}

const WRONG_KINDS: Record<string, [what: string, value: unknown, says: string][]> = {
  string: [
    ['a number', 5, 'must be a string, got 5\n    -> put it in quotes: "5"'],
    ['a list', ['a'], 'must be a string, got a list'],
    ['a mapping', { a: 1 }, 'must be a string, got a mapping'],
    ['true', true, 'must be a string, got true\n    -> put it in quotes: "true"'],
  ],
  integer: [
    ['a text', 'many', 'must be a whole number, got "many"'],
    ['a fraction', 1.5, 'must be a whole number, got 1.5'],
    ['a list', [1], 'must be a whole number, got a list'],
    ['a mapping', { a: 1 }, 'must be a whole number, got a mapping'],
    ['far too much', 1e25, 'is out of range, got 1e+25; allowed: '],
  ],
  float: [
    ['a text', 'half', 'must be a number, got "half"'],
    ['a list', [1], 'must be a number, got a list'],
    ['true', true, 'must be a number, got true'],
  ],
  bool: [
    ['a text', 'yes', 'must be true or false, got "yes"'],
    ['a number', 1, 'must be true or false, got 1'],
    ['a list', [true], 'must be true or false, got a list'],
  ],
  enum: [
    ['a word', 'NO_SUCH_THING', 'is not one of the values of '],
    ['a number', 1, 'is not one of the values of '],
    ['a list', ['A'], 'is not one of the values of '],
  ],
  message: [
    ['a text', 'x', 'must be a mapping, got "x"'],
    ['a number', 7, 'must be a mapping, got 7'],
    ['a list', [1], 'must be a mapping, got a list'],
  ],
  list: [
    ['a text', 'x', 'must be a list, got "x"'],
    ['a mapping', { a: 1 }, 'must be a list, got a mapping\n    -> write it as [ ... ], or each item after "- "'],
  ],
  map: [
    ['a text', 'x', 'must be a mapping, got "x"'],
    ['a list', ['x'], 'must be a mapping, got a list'],
  ],
};

function getKind(field: protobuf.Field): string {
  if (field.resolvedType instanceof protobuf.Type) return 'message';
  if (field.resolvedType instanceof protobuf.Enum) return 'enum';
  return (
    ['string', 'bool', 'float'].find((type) => type === field.type) ?? (field.type === 'double' ? 'float' : 'integer')
  );
}

/** A field somewhere in a configuration, at the first occurrence of its message. */
interface Place {
  /** Prefix of the field's name in problems: `input[0].`, empty for the configuration itself. */
  parent: string;
  field: protobuf.Field;
  type: protobuf.Type;
  /** model.yaml with `value` in the field `name` of the same message, and nothing else. */
  yaml: (name: string, value: unknown) => string;
  /** Text format of a configuration with `inner` in the same message. */
  text: (inner: string) => string;
}

/** Every field of every message. */
function everyPlace(): Place[] {
  const places: Place[] = [];
  const seen = new Set<protobuf.Type>();
  const walk = (type: protobuf.Type, parent: string, fill: (value: Fields) => Fields, text: Place['text']): void => {
    if (seen.has(type)) return;
    seen.add(type);
    const yaml: Place['yaml'] = (name, value) => JSON.stringify(fill({ [name]: value }));
    for (const field of type.fieldsArray.map((one) => one.resolve())) {
      const { name, repeated, map, resolvedType: inner } = field;
      places.push({ parent, field, type, yaml, text });
      if (!(inner instanceof protobuf.Type)) continue;
      const [key, suffix] = !(field instanceof protobuf.MapField)
        ? ['', repeated ? '[0]' : '']
        : field.keyType === 'string'
          ? ['input__0', '.input__0']
          : ['1', '["1"]'];
      walk(
        inner,
        `${parent}${name}${suffix}.`,
        (value) => fill({ [name]: map ? { [key]: value } : repeated ? [value] : value }),
        (within) => text(map ? `${name} { value { ${within} } }` : `${name} { ${within} }`),
      );
    }
  };
  walk(
    modelConfigType,
    '',
    (value) => value,
    (inner) => inner,
  );
  return places;
}

/** Each field with one kind of wrong value, in rotation, so that every field and every kind of mistake occurs. */
function wrongKinds(): WrongField[] {
  let turn = 0;
  return everyPlace().flatMap(({ parent, field, yaml }) => {
    const kind = field.map ? 'map' : field.repeated ? 'list' : getKind(field);
    const choices = WRONG_KINDS[kind] ?? [];
    const chosen = choices[turn++ % choices.length];
    const item = kind === 'list' ? WRONG_KINDS[getKind(field)]?.[0] : undefined;
    const path = `${parent}${field.name}`;
    const cases: WrongField[] = [];
    for (const [at, wrong, inList] of [
      [path, chosen, false],
      [`${path}[0]`, item, true],
    ] as const) {
      if (wrong === undefined) continue;
      const [what, value, says] = wrong;
      const text = yaml(field.name, inList ? [value] : value);
      cases.push({ name: `${at} is ${what}`, language: 'model.yaml', text, problem: `${at}: ${says}` });
    }
    return cases;
  });
}

/** For every message: an unknown field, and a field without a value. */
function unknownFields(): WrongField[] {
  const first = new Map<protobuf.Type, Place>();
  for (const place of everyPlace()) if (!first.has(place.type)) first.set(place.type, place);
  return [...first.values()].flatMap(({ parent, field, type, yaml, text }): WrongField[] => [
    {
      name: `no field ${parent}no_such_field`,
      language: 'model.yaml',
      text: yaml('no_such_field', 0),
      problem: `${parent}no_such_field: unknown field of ${type.name}; allowed: `,
    },
    {
      name: `${parent}${field.name} has no value`,
      language: 'model.yaml',
      text: yaml(field.name, null),
      problem: `${parent}${field.name}: has no value`,
    },
    {
      name: `no field ${parent}no_such_field`,
      language: 'config.pbtxt',
      text: `platform: "pytorch_libtorch"\n${text('no_such_field: 1')}\n`,
      problem: new RegExp(`^line 2: .*${type.name}: unknown field 'no_such_field'`),
    },
  ]);
}

/** Every field of Triton's definition with an invalid value. */
export const WRONG_FIELDS: readonly WrongField[] = [...wrongKinds(), ...unknownFields()];
