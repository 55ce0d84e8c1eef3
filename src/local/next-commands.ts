import { shellWord } from '../core/format';
import { displayPath } from '../model/paths';
import { repoFlag } from '../core/next-command';
import { FACE } from './samples';

/** Where `npm run local` serves HTTP, unless a flag says otherwise. */
export const STANDARD_HTTP = 'http://127.0.0.1:8000';

const PHOTO = displayPath(FACE);

/** What `npm run infer` is given for the models of this package. */
const INPUTS: Record<string, string> = {
  'ens_face_restoration_v2.1': `${PHOTO} -o restored.png`,
  resnet: PHOTO,
  bert: '"A man is playing the guitar." "Someone plays an instrument."',
};

/** Flags by which a command finds the running stack of a repository. */
export function localFlags(repository: string): string {
  return ['--local', ...repoFlag(repository).map(shellWord)].join(' ');
}

/** Commands that ask those of the models which we know something to ask, by model; to paste. */
export function askCommands(models: readonly string[], repository: string): Map<string, string> {
  const known = models.filter((model) => Object.hasOwn(INPUTS, model));
  return new Map(known.map((model) => [model, `npm run infer -- ${model} ${INPUTS[model]} ${localFlags(repository)}`]));
}

/** What to do next with a stack that is up, from another terminal: ask a model, and see what was published. */
export function nextCommands(models: readonly string[], repository: string): string[] {
  const [ask] = askCommands(models, repository).values();
  const flags = localFlags(repository);
  const [first] = models;
  // Without an input infer tells what the model takes.
  const asks = ask ?? (first === undefined ? undefined : `npm run infer -- ${first} ${flags}`);
  return [...(asks === undefined ? [] : [asks]), `npm run status -- ${flags}`];
}
