import protobuf from 'protobufjs/light';
import { modelConfigType } from '../../src/model/model-config';
import { chance, list, pick, type Fields, type Random } from './random-choice';

/** Fields for features that the test's server lacks: other backends, files, a GPU, and features of newer versions. */
const NOT_HERE = new Set([
  ...[
    'name',
    'platform',
    'backend',
    'runtime',
    'model_repository_agents',
    'default_model_filename',
    'cc_model_filenames',
    'model_operations',
  ],
  ...['model_warmup', 'model_metrics', 'max_inflight_requests', 'model_namespace', 'gpus'],
  ...['label_filename', 'data_file'],
]);

/** Sets, removes or repeats one field somewhere in a message. New values have the right type. */
export function disturb(type: protobuf.Type, message: Fields, random: Random): void {
  const fields = type.fieldsArray
    .filter(({ name }) => type !== modelConfigType || !NOT_HERE.has(name))
    .map((field) => field.resolve());
  const present = fields.filter(({ name }) => message[name] !== undefined);
  const inner = present.filter((field) => field.resolvedType instanceof protobuf.Type);
  if (inner.length > 0 && chance(random, 0.75)) {
    const field = pick(random, inner);
    const item = oneOf(random, field, message[field.name]);
    if (item !== undefined) disturb(field.resolvedType as protobuf.Type, item, random);
    return;
  }
  // The backend would have to report tensors that the configuration lacks, and the empty backend reports none.
  const isTensors = ({ name }: protobuf.Field): boolean => type === modelConfigType && /^(in|out)put$/.test(name);
  const allowed = (chance(random, 0.6) && present.length > 0 ? present : fields).filter(
    (field) => !LATER.has(field.name) && !isTensors(field),
  );
  if (allowed.length > 0) setField(type, message, pick(random, allowed), random);
}

/** `name` is excluded only for the model itself. */
const LATER = new Set([...NOT_HERE].filter((name) => name !== 'name'));

function oneOf(random: Random, field: protobuf.Field, value: unknown): Fields | undefined {
  if (field.map) return pick(random, Object.values(value as Record<string, Fields>));
  return Array.isArray(value) ? pick<Fields>(random, value as Fields[]) : (value as Fields);
}

function setField(type: protobuf.Type, message: Fields, field: protobuf.Field, random: Random): void {
  const { name } = field;
  const value = message[name];
  if (chance(random, 0.2)) remove(message, name);
  else if (Array.isArray(value) && chance(random, 0.4))
    message[name] = [
      ...(value as unknown[]),
      ...(chance(random, 0.5) ? (value as unknown[]) : [randomItem(field, random)]),
    ];
  else message[name] = randomValue(field, random);
  tidy(type, message, name);
}

/** Removes empty lists, and all alternatives of a oneof but the one that was set last. */
function tidy(type: protobuf.Type, message: Fields, last?: string): void {
  for (const [key, value] of Object.entries(message))
    if (Array.isArray(value) && value.length === 0) remove(message, key);
  for (const { oneof } of type.oneofsArray) {
    const given = oneof.filter((name) => message[name] !== undefined);
    const kept = last !== undefined && given.includes(last) ? last : given[0];
    for (const name of given) if (name !== kept) remove(message, name);
  }
}

export const remove = (message: Fields, key: string): boolean => Reflect.deleteProperty(message, key);

function randomValue(field: protobuf.Field, random: Random): unknown {
  field.resolve();
  if (field instanceof protobuf.MapField) {
    const key = field.keyType === 'string' ? pick(random, ['x0', 'a', '']) : pick(random, ['0', '1', '3']);
    return { [key]: randomItem(field, random) };
  }
  return field.repeated ? list(random, 0, 2, () => randomItem(field, random)) : randomItem(field, random);
}

function randomItem(field: protobuf.FieldBase, random: Random): unknown {
  const type = field.resolvedType;
  if (type instanceof protobuf.Enum) {
    return pick(
      random,
      Object.keys(type.values).filter((name) => name !== 'KIND_GPU'),
    );
  }
  if (type instanceof protobuf.Type) {
    const message: Fields = {};
    for (const one of type.fieldsArray)
      if (chance(random, 0.5) && !LATER.has(one.name)) message[one.name] = randomValue(one, random);
    tidy(type, message);
    return message;
  }
  if (field.type === 'string') return pick(random, ['x0', 'y0', 'x1', '', 'a b', '\u00e9', 'CONTROL0']);
  if (field.type === 'bool') return chance(random, 0.5);
  if (field.type === 'float' || field.type === 'double') return pick(random, [0, -1, 0.5, 2, Infinity]);
  const numbers = [0, 1, 2, 3, 8, 9, 2 ** 31 - 1];
  return pick(random, field.type.startsWith('u') ? numbers : [...numbers, -1, -2]);
}
