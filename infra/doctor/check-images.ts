import { COMPONENT_NAME } from '../settings/triton';
import { completeOptions } from '../triton/settings';
import { error, ok, warning, type Check, type Finding } from './check';
import { askRegistry } from './registry';
import { WebError, type Web } from './web';

/**
 * The images in the registries that pods pull from. The nodes may reach another registry than this machine, which only they
 * know.
 */
export const imagesCheck: Check = {
  name: 'images',
  run: ({ settings, web }) => {
    const { image, agentImage } = completeOptions(COMPONENT_NAME, settings.triton);
    return Promise.all([judgeSource(web, 'image', image), judgeSource(web, 'agentImage', agentImage)]);
  },
};

async function judgeSource(web: Web, setting: string, source: string): Promise<Finding> {
  const unchecked = (reason: string): Finding =>
    warning(
      `${source} is not checked: ${reason}`,
      `check that the nodes may pull it; with an account: docker manifest inspect ${source}`,
    );
  try {
    const answer = await askRegistry(web, source);
    if (answer.kind === 'unknown') return unchecked(answer.reason);
    if (answer.kind === 'found') return ok(`${source} exists, with the digest ${answer.digest ?? '(not reported)'}`);
  } catch (cause) {
    if (!(cause instanceof WebError)) throw cause;
    return unchecked(cause.message);
  }
  return error(`${source} does not exist, so nodes cannot pull it`, `correct ${setting} in the stack file`);
}
