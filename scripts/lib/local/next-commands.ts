import { displayPath } from '../model/paths';
import { formatLocation, type RepositoryLocation } from '../publish/location';
import { CONTROL_KEY_VARIABLE } from '../replicas/source';
import { LOCAL_CREDENTIALS } from './s3-server';
import { FACE } from './samples';

/** Where `npm run local` serves HTTP unless it is told otherwise. */
export const STANDARD_HTTP = 'http://127.0.0.1:8000';

const PHOTO = displayPath(FACE);

/** What `npm run infer` is given for the models of this package. */
const INPUTS: Record<string, string> = {
  'ens_face_restoration_v2.1': `${PHOTO} -o restored.png`,
  resnet: PHOTO,
  bert: '"A man is playing the guitar." "Someone plays an instrument."',
};

const urlFlag = (http: string): string => (http === STANDARD_HTTP ? '' : ` --url ${http}`);

/** Commands that ask those of the models which we know something to ask, by model; to paste. */
export function askCommands(models: readonly string[], http: string): Map<string, string> {
  const known = models.filter((model) => Object.hasOwn(INPUTS, model));
  return new Map(known.map((model) => [model, `npm run infer -- ${model} ${INPUTS[model]}${urlFlag(http)}`]));
}

/** What to do next with a stack that is up, from another terminal: ask a model, and see what was published. */
export function nextCommands(stack: {
  models: readonly string[];
  http: string;
  s3: string;
  location: RepositoryLocation;
  modelControlKey: string;
}): string[] {
  const { models, http, s3, location, modelControlKey } = stack;
  const [ask] = askCommands(models, http).values();
  const { accessKeyId, secretAccessKey } = LOCAL_CREDENTIALS;
  return [
    // Without an input the command tells what the model takes.
    ask ?? `npm run infer -- ${models[0]}${urlFlag(http)}`,
    `export AWS_ACCESS_KEY_ID=${accessKeyId} AWS_SECRET_ACCESS_KEY=${secretAccessKey} ${CONTROL_KEY_VARIABLE}=${modelControlKey}`,
    `npm run status -- --bucket ${formatLocation(location)} --endpoint-url ${s3} --triton ${http}`,
  ];
}
