import { dirname, delimiter, join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/local/install/python';
import { buildCrane } from '../../tools/toolchain/crane';
import { whyNoGo } from '../../tools/toolchain/go';
import { runBlock } from '../support/doc-commands';
import { describeUnless } from '../support/describe-unless';
import { pushImage, startRegistry } from '../support/registry';
import { Scratch } from '../support/temp-dir';

describeUnless(whyNoGo(['crane']), 'images from another registry', () => {
  const scratch = new Scratch();
  afterAll(() => scratch.clean());

  test('the commands of docs/operations.md copy an image with all architectures, and name it by its digest', async () => {
    const quiet = new Progress(process.stderr, true).step('');
    const [crane, { python }] = await Promise.all([buildCrane(quiet), ensurePython(quiet)]);
    const source = await startRegistry(scratch, crane, python);
    const target = await startRegistry(scratch, crane, python);
    const digest = await pushImage(source, 'nvidia/tritonserver', 'RELEASE-py3');
    const env = {
      ...process.env,
      PATH: [dirname(crane), process.env['PATH']].join(delimiter),
      DOCKER_CONFIG: join(scratch.directory, 'docker'),
    };
    const replace = {
      'nvcr.io': source.host,
      REGISTRY: target.host,
      'aws ecr get-login-password': 'echo a-password',
      'pulumi config set --stack prod': 'echo',
    };
    const stack = { name: 'prod', directory: scratch.directory, env };
    const printed = await runBlock('operations.md', stack, 'SOURCE=', { replace });
    expect(printed).toBe(`image ${target.host}/tritonserver:RELEASE-py3@${digest}\n`);
    const accept = 'application/vnd.oci.image.index.v1+json';
    const index = await fetch(`http://${target.host}/v2/tritonserver/manifests/${digest}`, { headers: { accept } });
    const { manifests } = (await index.json()) as { manifests: { platform: { architecture: string } }[] };
    expect(manifests.map(({ platform }) => platform.architecture)).toEqual(['amd64', 'arm64']);
  });
});
