import type { SequenceControl, SequenceState } from '../model-config';
import { describe } from '../../core/problems';
import { checkSizes, type CheckedModel, type ModelRule } from './rule';

const CONTROLS = 'sequence_batching.control_input';
const STATES = 'sequence_batching.state';

/** Fields for the values of a flag: a false and a true value of one type. */
const FLAG_VALUES = ['int32_false_true', 'fp32_false_true', 'bool_false_true'] as const;
const CORRELATION_TYPES = ['TYPE_UINT64', 'TYPE_INT64', 'TYPE_UINT32', 'TYPE_INT32', 'TYPE_STRING'];
/** The server allocates a slot for each sequence when it loads the model. Ten million slots took 20 seconds. */
const MOST_SEQUENCES = 100_000;

const controlsHaveNames: ModelRule = ({ config, problems }) => {
  const first = new Map<string, number>();
  (config.sequence_batching?.control_input ?? []).forEach(({ name }, index) => {
    const before = first.get(name ?? '');
    if (!name) problems.add(`${CONTROLS}[${index}].name`, 'is missing');
    else if (before === undefined) first.set(name, index);
    else
      problems.add(`${CONTROLS}[${index}].name`, `is also the name of ${CONTROLS}[${before}], got ${describe(name)}`);
  });
};

const controlsAreGivenOnce: ModelRule = (model) => {
  const first = new Map<string, string>();
  for (const [field, { kind = 'CONTROL_SEQUENCE_START' }] of controls(model)) {
    const before = first.get(kind);
    if (before === undefined) first.set(kind, field);
    else model.problems.add(`${field}.kind`, `is already given by ${before}, got ${kind}`);
  }
};

/** The correlation id needs a type; the flags need values for false and true. */
const controlsHaveValues: ModelRule = (model) => {
  for (const [field, control] of controls(model)) {
    const given = FLAG_VALUES.filter((name) => control[name] !== undefined);
    if (control.kind === 'CONTROL_SEQUENCE_CORRID') {
      if (!CORRELATION_TYPES.includes(control.data_type ?? '')) {
        model.problems.add(
          `${field}.data_type`,
          `is not a data type of correlation IDs, got ${control.data_type ?? 'nothing'}`,
          {
            allowed: CORRELATION_TYPES.join(', '),
          },
        );
      }
      for (const name of given) model.problems.add(`${field}.${name}`, 'cannot be set for a correlation ID');
      continue;
    }
    const [name, second] = given;
    if (name === undefined) {
      model.problems.add(field, 'has no values for false and true', { allowed: `one of ${FLAG_VALUES.join(', ')}` });
    } else if (second !== undefined) {
      model.problems.add(`${field}.${second}`, `cannot be combined with ${name}`, {
        allowed: `one of ${FLAG_VALUES.join(', ')}`,
      });
    } else if (control[name]?.length !== 2) {
      model.problems.add(
        `${field}.${name}`,
        `must have one value for false and one for true, got ${control[name]?.length}`,
        {
          allowed: '2 values',
        },
      );
    }
  }
};

function controls({ config }: CheckedModel): [field: string, control: SequenceControl][] {
  return (config.sequence_batching?.control_input ?? []).flatMap(({ control = [] }, index) =>
    control.map((one, place): [string, SequenceControl] => [`${CONTROLS}[${index}].control[${place}]`, one]),
  );
}

/** Triton 2.51 does not refuse a wrong initial state; the server crashes with all other models. */
const initialStatesFit: ModelRule = ({ config, problems }) => {
  const first = new Map<string, string>();
  (config.sequence_batching?.state ?? []).forEach((state, index) => {
    const at = `${STATES}[${index}]`;
    const { input_name: input = '', initial_state: initial = [] } = state;
    if (initial.length === 0) return;
    if (initial.length > 1) problems.add(`${at}.initial_state`, `must have one entry, got ${initial.length}`);
    const before = first.get(input);
    if (before === undefined) first.set(input, at);
    else problems.add(`${at}.input_name`, `is also the input of ${before}, got ${describe(input)}`);
    initialStateFits(problems, `${at}.initial_state[0]`, initial[0] ?? {}, state);
  });
};

function initialStateFits(
  problems: CheckedModel['problems'],
  field: string,
  initial: NonNullable<SequenceState['initial_state']>[number],
  state: SequenceState,
): void {
  const { dims = [], data_type: type, name, zero_data: zero, data_file: file } = initial;
  if (!name) problems.add(`${field}.name`, 'is missing');
  if (type !== state.data_type) {
    problems.add(`${field}.data_type`, `differs from the data type of the state, got ${type ?? 'nothing'}`, {
      allowed: state.data_type ?? 'the type of the state, which is missing',
    });
  }
  if (zero === undefined && file === undefined) {
    problems.add(field, 'has no values', { allowed: 'one of zero_data: true, data_file' });
  }
  checkSizes(problems, `${field}.dims`, dims, { of: 'state', dims: state.dims ?? [] });
}

const noBatchingOfOnesOwn: ModelRule = ({ config, problems }) => {
  if (config.sequence_batching === undefined || config.parameters?.['TRITON_BATCH_STRATEGY_PATH'] === undefined) return;
  problems.add('parameters.TRITON_BATCH_STRATEGY_PATH', 'cannot be combined with sequence_batching');
};

const sequencesAreCountable: ModelRule = ({ config, problems }) => {
  const batching = config.sequence_batching;
  if (batching === undefined) return;
  const given = batching.oldest?.max_candidate_sequences ?? 0;
  const [field, slots] =
    given > 0
      ? ['sequence_batching.oldest.max_candidate_sequences', given]
      : ['max_batch_size', config.max_batch_size ?? 0];
  if (slots <= MOST_SEQUENCES) return;
  problems.add(field, `allows too many concurrent sequences, got ${slots}`, {
    allowed: `at most ${MOST_SEQUENCES} with sequence_batching`,
  });
};

/** Rules for sequences: the controls that Triton sends to a model, and the state that it keeps between requests. */
export const sequenceRules: readonly ModelRule[] = [
  controlsHaveNames,
  controlsAreGivenOnce,
  controlsHaveValues,
  initialStatesFit,
  sequencesAreCountable,
  noBatchingOfOnesOwn,
];
