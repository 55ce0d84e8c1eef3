import { describe } from '../../core/problems';
import type { CheckedModel, ModelRule } from './rule';

/*
 * Configurations that Triton refuses for `platform: torch_aoti`. Lines of triton-inference-server/pytorch_backend at
 * 266fd38: src/pt2/model_state.cc :455 to :500 for the names, src/pt2/model_instance_state.cc :1722 to :1997 for the rest.
 */
const isProgram = ({ facts, config }: CheckedModel): boolean => facts?.label === 'torch_aoti' && !config.runtime;

/** The keys of a path in the call specification, such as [0][mask]. Triton allows no brackets, quotes or blanks in them. */
const KEY = String.raw`\[[^\][\s"]+\]`;
const SIDES = [
  ['input', new RegExp(`^(INPUT__\\d+|ARGS(${KEY})+)$`), 'INPUT__0, ARGS[0]'],
  ['output', new RegExp(`^(OUTPUT__\\d+|RESULT(${KEY})*)$`), 'OUTPUT__0, RESULT, RESULT[0]'],
] as const;

const namesAreOfTheProgram: ModelRule = (model) => {
  if (!isProgram(model)) return;
  for (const [side, pattern, allowed] of SIDES) {
    const names = (model.config[side] ?? []).map(({ name = '' }) => name);
    const positions = names.map((name) => /^(?:INPUT__|ARGS\[|OUTPUT__|RESULT\[)(\d+)\]?$/.exec(name)?.[1]);
    names.forEach((name, index) => {
      const number = /^INPUT__(\d+)$/.exec(name)?.[1];
      const same = positions[index] === undefined ? index : positions.indexOf(positions[index]);
      if (name !== '' && !pattern.test(name)) {
        model.problems.add(
          `${side}[${index}].name`,
          `is not a name that Triton gives to tensors of a program, got ${describe(name)}`,
          {
            allowed: `${allowed} and so on`,
            hint: `number the tensors in the order of forward(), in capitals: ${side.toUpperCase()}__${index}`,
          },
        );
      } else if (number !== undefined && Number(number) >= names.length) {
        model.problems.add(`${side}[${index}].name`, `skips a position, got ${describe(name)}`, {
          allowed: names.length === 1 ? 'INPUT__0' : `INPUT__0 to INPUT__${names.length - 1}`,
          hint: 'name every argument of forward()',
        });
      } else if (same < index && names[same] !== name) {
        model.problems.add(`${side}[${index}].name`, `is the tensor ${names[same]} once more, got ${describe(name)}`, {
          hint: 'name each tensor once',
        });
      }
    });
  }
};

/** Types that the backend converts, some only in newer releases (triton-releases.ts). */
const TYPES: readonly string[] = 'BOOL UINT8 INT8 INT16 INT32 INT64 FP16 BF16 FP32 FP64'
  .split(' ')
  .map((name) => `TYPE_${name}`);

const typesAreOfTheBackend: ModelRule = (model) => {
  if (!isProgram(model)) return;
  for (const [side] of SIDES) {
    (model.config[side] ?? []).forEach(({ data_type: type }, index) => {
      if (type === undefined || type === 'TYPE_INVALID' || TYPES.includes(type)) return;
      model.problems.add(`${side}[${index}].data_type`, `is not supported for torch_aoti, got ${type}`, {
        allowed: TYPES.join(', '),
        hint: 'convert the data type inside the model',
      });
    });
  }
};

const requestsAreWholeTensors: ModelRule = (model) => {
  if (!isProgram(model)) return;
  const { sequence_batching: sequences, batch_input: added, batch_output: split, input = [] } = model.config;
  const fields = { sequence_batching: sequences, batch_input: added?.[0], batch_output: split?.[0] };
  const hint = 'use platform: pytorch_libtorch';
  for (const [field, value] of Object.entries(fields)) {
    if (value !== undefined) model.problems.add(field, 'is not supported for torch_aoti', { hint });
  }
  input.forEach(({ optional, allow_ragged_batch: isRagged }, index) => {
    if (optional === true) model.problems.add(`input[${index}].optional`, 'is not supported for torch_aoti');
    if (isRagged === true)
      model.problems.add(`input[${index}].allow_ragged_batch`, 'is not supported for torch_aoti', { hint });
  });
};

export const programRules: readonly ModelRule[] = [namesAreOfTheProgram, typesAreOfTheBackend, requestsAreWholeTensors];
