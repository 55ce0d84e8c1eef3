import { UserError } from '../core/errors';
import { shellWord } from '../core/format';
import { repoFlag } from '../core/next-command';
import { displayPath } from '../model/paths';
import { FACE } from './sample-requests';

/** HTTP address of `npm run local` without flags. */
export const STANDARD_HTTP = 'http://127.0.0.1:8000';

const PHOTO = displayPath(FACE);

/** Inputs of `npm run infer` for the models of this package. */
const INPUTS = new Map([
  ['ens_face_restoration_v2.1', ` ${PHOTO} -o restored.png`],
  ['resnet', ` ${PHOTO}`],
  ['bert', ' "A man is playing the guitar." "Someone plays an instrument."'],
]);

/** Commands to run next in another terminal: ask a model, and show the published models. */
export function nextCommands(models: readonly string[], repository: string): string[] {
  const flags = ['--local', ...repoFlag(repository).map(shellWord)].join(' ');
  const model = models.find((name) => INPUTS.has(name)) ?? models[0];
  // Without an input, infer prints the inputs of the model.
  const ask = model === undefined ? [] : [`npm run infer -- ${model}${INPUTS.get(model) ?? ''} ${flags}`];
  return [...ask, `npm run status -- ${flags}`];
}

/** Describes the end of a server, with its likely cause if known. */
export function serverEnded(name: string, how: string, logFile: string): UserError {
  const cause =
    name === 'tritonserver' && how.includes('SIGSEGV') ? 'native code of a model or of the server crashed: ' : '';
  return new UserError(`${name} ended unexpectedly (${how})`, { hint: `${cause}see its log, ${logFile}` });
}
