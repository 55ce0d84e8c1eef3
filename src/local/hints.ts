import { UserError } from '../core/errors';
import { shellWord } from '../core/format';
import { displayPath } from '../model/paths';
import { repoFlag } from '../core/next-command';
import { FACE } from './sample-requests';

/** HTTP address of `npm run local` without flags. */
export const STANDARD_HTTP = 'http://127.0.0.1:8000';

const PHOTO = displayPath(FACE);

/** Inputs of `npm run infer` for the models of this package. */
const INPUTS: Record<string, string> = {
  'ens_face_restoration_v2.1': `${PHOTO} -o restored.png`,
  resnet: PHOTO,
  bert: '"A man is playing the guitar." "Someone plays an instrument."',
};

/** Flags that select the running stack of a repository. */
export function localFlags(repository: string): string {
  return ['--local', ...repoFlag(repository).map(shellWord)].join(' ');
}

/** Model -> command with an example request, for the models with known inputs. */
export function askCommands(models: readonly string[], repository: string): Map<string, string> {
  const known = models.filter((model) => Object.hasOwn(INPUTS, model));
  return new Map(known.map((model) => [model, `npm run infer -- ${model} ${INPUTS[model]} ${localFlags(repository)}`]));
}

/** Commands to run next in another terminal: ask a model, and show the published models. */
export function nextCommands(models: readonly string[], repository: string): string[] {
  const [ask] = askCommands(models, repository).values();
  const flags = localFlags(repository);
  const [first] = models;
  // Without an input, infer prints the inputs of the model.
  const asks = ask ?? (first === undefined ? undefined : `npm run infer -- ${first} ${flags}`);
  return [...(asks === undefined ? [] : [asks]), `npm run status -- ${flags}`];
}

/** Describes the end of a server, with its likely cause if known. */
export function serverEnded(name: string, how: string, logFile: string): UserError {
  const cause =
    name === 'tritonserver' && how.includes('SIGSEGV') ? 'native code of a model or of the server crashed: ' : '';
  return new UserError(`${name} ended unexpectedly (${how})`, { hint: `${cause}see its log, ${logFile}` });
}
