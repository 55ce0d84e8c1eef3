import protobuf from 'protobufjs/light';
import { modelConfigType } from '../../../src/model/model-config';
import { torchScript } from '../model-files';
import { ARTIFACT, begins, input, output, sound, type Fields, type MalformedCase } from './case';

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
  /** A configuration that is valid except for `value` in the field `name` of the same message. */
  put: (name: string, value: unknown) => Fields;
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
    const put: Place['put'] = (name, value) => fill({ ...surroundings(type, name), [name]: value });
    for (const field of type.fieldsArray.map((one) => one.resolve())) {
      const { name, repeated, map, resolvedType: inner } = field;
      places.push({ parent, field, type, put, text });
      if (!(inner instanceof protobuf.Type)) continue;
      const [key, suffix] = !(field instanceof protobuf.MapField)
        ? ['', repeated ? '[0]' : '']
        : field.keyType === 'string'
          ? ['input__0', '.input__0']
          : ['1', '["1"]'];
      walk(
        inner,
        `${parent}${name}${suffix}.`,
        (value) => put(name, map ? { [key]: value } : repeated ? [value] : value),
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

/** Other required fields of a message, so that only one thing is wrong. */
function surroundings(type: protobuf.Type, name: string): Fields {
  const alternatives = type.oneofsArray.find(({ oneof }) => oneof.includes(name))?.oneof ?? [];
  const given = Object.entries(SURROUNDINGS[type.name] ?? {});
  return Object.fromEntries(given.filter(([other]) => other === name || !alternatives.includes(other)));
}

const tensor = { data_type: 'TYPE_FP32', dims: [3] };
const control = { kind: 'CONTROL_SEQUENCE_START', int32_false_true: [0, 1] };
const step = { model_name: 'a', model_version: -1, input_map: { input__0: 'x' }, output_map: { output__0: 'y' } };

/** Message -> its fields besides the wrong one. */
const SURROUNDINGS: Record<string, Fields> = {
  ModelInput: input(),
  ModelOutput: output(),
  BatchInput: { kind: 'BATCH_ELEMENT_COUNT', data_type: 'TYPE_FP32', source_input: ['input__0'], target_name: ['b'] },
  BatchOutput: { source_input: ['input__0'], target_name: ['output__0'] },
  ControlInput: { name: 'c__1', control: [control] },
  Control: control,
  InitialState: { name: 'z', ...tensor, zero_data: true },
  State: { input_name: 's__1', output_name: 't__1', ...tensor },
  ModelEnsembling: { step: [step] },
  Step: step,
  ModelWarmup: { name: 'w', batch_size: 1, inputs: { input__0: { ...tensor, zero_data: true } } },
  Input: { ...tensor, zero_data: true },
  Agent: { name: 'checksum' },
  ModelRepositoryAgents: { agents: [{ name: 'checksum' }] },
  MetricControl: { metric_identifier: { family: 'f' }, histogram_options: { buckets: [1] } },
  MetricIdentifier: { family: 'f' },
  HistogramOptions: { buckets: [1] },
  Latest: { num_versions: 1 },
  Specific: { versions: [1] },
  ModelTensorReshape: { shape: [3] },
};

/** Files of a repository with a configuration. For an ensemble, also the model of its step. */
function getRepository(fields: Fields): MalformedCase['files'] {
  if (fields['ensemble_scheduling'] === undefined)
    return { ...ARTIFACT, 'm/model.yaml': JSON.stringify(sound(fields)) };
  const ports = { input: [{ name: 'x', ...tensor }], output: [{ name: 'y', ...tensor, dims: [4] }] };
  return {
    'm/model.yaml': JSON.stringify({ platform: 'ensemble', max_batch_size: 8, ...ports, ...fields }),
    'm/1/.keep': '.',
    'a/model.yaml': JSON.stringify(sound()),
    'a/1/model.pt': torchScript(),
  };
}

/** Each field with one kind of wrong value, in rotation, so that every field and every kind of mistake occurs. */
function wrongKinds(): MalformedCase[] {
  let turn = 0;
  return everyPlace().flatMap(({ parent, field, put }) => {
    const kind = field.map ? 'map' : field.repeated ? 'list' : getKind(field);
    const choices = WRONG_KINDS[kind] ?? [];
    const chosen = choices[turn++ % choices.length];
    const item = kind === 'list' ? WRONG_KINDS[getKind(field)]?.[0] : undefined;
    const path = `${parent}${field.name}`;
    const cases: MalformedCase[] = [];
    for (const [at, wrong, inList] of [
      [path, chosen, false],
      [`${path}[0]`, item, true],
    ] as const) {
      if (wrong === undefined) continue;
      const [what, value, says] = wrong;
      cases.push({
        name: `model.yaml: ${at} is ${what}`,
        files: getRepository(put(field.name, inList ? [value] : value)),
        problems: [begins(`m/model.yaml: ${at}: ${says}`)],
      });
    }
    return cases;
  });
}

/** For every message: an unknown field, a misspelt field, and a field without a value. */
function unknownFields(): MalformedCase[] {
  const first = new Map<protobuf.Type, Place>();
  for (const place of everyPlace()) if (!first.has(place.type)) first.set(place.type, place);
  return [...first.values()].flatMap(({ parent, field, type, put, text }) => [
    {
      name: `model.yaml: no field ${parent}no_such_field`,
      files: getRepository(put('no_such_field', 0)),
      problems: [begins(`m/model.yaml: ${parent}no_such_field: unknown field of ${type.name}; allowed: `)],
    },
    {
      name: `model.yaml: ${parent}${field.name} has no value`,
      files: getRepository(put(field.name, null)),
      problems: [begins(`m/model.yaml: ${parent}${field.name}: has no value`)],
    },
    {
      name: `config.pbtxt: no field ${parent}no_such_field`,
      files: { ...ARTIFACT, 'm/config.pbtxt': `platform: "pytorch_libtorch"\n${text('no_such_field: 1')}\n` },
      problems: [new RegExp(`^m/config\\.pbtxt: line 2: .*${type.name}: unknown field 'no_such_field'`)],
    },
  ]);
}

/** Every field of Triton's definition with an invalid value. */
export const FIELDS: readonly MalformedCase[] = [...wrongKinds(), ...unknownFields()];
