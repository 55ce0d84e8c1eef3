import type { SequenceState } from '../model-config';
import { describe } from '../../core/problems';
import { checkSizes, type CheckedModel, type ModelRule } from './rule';

const STATES = 'sequence_batching.state';

/** The server allocates a slot for each sequence when it loads the model. Ten million slots took 20 seconds. */
const MOST_SEQUENCES = 100_000;

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

/** Configurations of sequences that Triton does not refuse: it crashes, or loads them for minutes. */
export const sequenceRules: readonly ModelRule[] = [initialStatesFit, sequencesAreCountable];
