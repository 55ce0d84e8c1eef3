import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { CreateRepositoryCommand, ECRClient, GetAuthorizationTokenCommand } from '@aws-sdk/client-ecr';
import { getConfig } from '../support/registered-stack';
import { mirroredImages } from '../../infra/images/mirrored-image';
import { readSettings } from '../../infra/settings';
import { main } from '../../scripts/mirror-image';
import { Progress } from '../../src/cli/progress';
import { shellWord } from '../../src/core/format';
import { paths } from '../../src/core/paths';
import { CRANE } from '../../src/install/crane';
import { ensurePython } from '../../src/install/python';
import { buildCrane } from '../../tools/toolchain/crane';
import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from '../support/describe-unless';
import { ECR_HOST, startEcr, type Ecr } from '../support/ecr';
import { testMoto } from '../support/moto';
import { pushImage, startRegistry, type Registry } from '../support/registry';
import { startCommandLine } from '../support/run';
import { Scratch } from '../support/temp-dir';
import { waitFor } from '../support/wait-for';

/**
 * `npm run mirror-image` between two real registries, of which one is behind the host name, TLS, passwords, rights and
 * immutable tags of ECR. The mock of AWS has the repositories and the password.
 */

const scratch = new Scratch();
const before = { ...process.env };
afterEach(() => jest.restoreAllMocks());
afterAll(async () => {
  process.env = before;
  await scratch.clean();
});

test('one version of crane is pinned', () => {
  const pins = readFileSync(join(paths.tools, 'toolchain/go/crane/go.mod'), 'utf8');
  expect(/go-containerregistry (v\S+)/.exec(pins)?.[1]).toBe(CRANE.version);
});

describeUnless(whyNoGo(['crane']), 'npm run mirror-image', () => {
  let source: Registry;
  let ecr: Ecr;
  let sdk: ECRClient;
  let password: string;
  /** Command lines and configurations of crane. */
  const log = join(scratch.directory, 'crane.log');

  beforeAll(async () => {
    const quiet = new Progress(process.stderr, true).step('');
    const [crane, { python }] = await Promise.all([buildCrane(quiet), ensurePython(quiet)]);
    const moto = await testMoto(scratch);
    Object.assign(process.env, moto.env, { AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true' });
    sdk = new ECRClient({ region: 'us-east-1' });
    const { authorizationData } = await sdk.send(new GetAuthorizationTokenCommand({}));
    password =
      Buffer.from(authorizationData?.[0]?.authorizationToken ?? '', 'base64')
        .toString()
        .split(':')[1] ?? '';
    source = await startRegistry(scratch, crane, python);
    ecr = await startEcr(scratch, await startRegistry(scratch, crane, python), password);
    const programs = join(scratch.directory, 'programs');
    mkdirSync(programs);
    const record = `{ echo "$0 $*"; cat "$DOCKER_CONFIG"/*; tr '\\0' ' ' </proc/$$/cmdline; } >>${shellWord(log)}`;
    writeFileSync(join(programs, 'crane'), `#!/bin/sh\n${record}\nexec ${shellWord(crane)} "$@"\n`);
    chmodSync(join(programs, 'crane'), 0o755);
    Object.assign(process.env, ecr.env, {
      PATH: [programs, process.env['PATH']].join(delimiter),
      DOCKER_CONFIG: join(scratch.directory, 'docker'),
    });
  }, 600_000);

  beforeEach(() => {
    ecr.calls.length = 0;
    ecr.uploads.length = 0;
    ecr.denied.clear();
    ecr.taken.clear();
    ecr.breakAfter = Infinity;
    ecr.beforeUpload = () => Promise.resolve();
  });

  let stacks = 0;

  /** A stack file, with its repositories in ECR unless `repositories` is false. */
  async function createStack(settings: object, repositories = true): Promise<{ stack: string; args: string[] }> {
    const stack = `s${(stacks += 1)}`;
    const values = { publisherSubjects: [], cluster: 'existing', mirrorImages: true, ...settings };
    const config = {
      'aws:region': 'us-east-1',
      ...Object.fromEntries(Object.entries(values).map(([key, value]) => [`triton-serving:${key}`, value])),
    };
    const folder = join(scratch.directory, stack);
    mkdirSync(folder);
    writeFileSync(join(folder, `Pulumi.${stack}.yaml`), JSON.stringify({ config }));
    for (const name of repositories ? ['tritonserver', 'node'] : []) {
      await sdk.send(new CreateRepositoryCommand({ repositoryName: `triton-${stack}/${name}` }));
    }
    return { stack, args: ['--stack', stack, '--stack-dir', folder] };
  }

  async function run(args: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> {
    const text = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      jest.spyOn(process[name], 'write').mockImplementation((chunk) => ((text[name] += String(chunk)), true));
    }
    const code = await main(args);
    jest.restoreAllMocks();
    return { code, ...text };
  }

  test('copies an index, and copies nothing the second time', async () => {
    const { digest, blobs } = await pushImage(source, 'nvidia/tritonserver', '26.11-py3');
    const image = `${source.host}/nvidia/tritonserver:26.11-py3`;
    const { stack, args } = await createStack({ image });
    const first = await run(args);
    expect([first.stderr, first.code]).toEqual([expect.stringMatching(/^ok {3}crane.*\nok {3}copy .*\n$/), 0]);
    const target = `${ECR_HOST}/triton-${stack}/tritonserver@${digest}`;
    expect(first.stdout).toBe(`copied   ${image} -> ${target} (80.3 kB)\nNext: pulumi up --stack ${stack}\n`);
    expect([...ecr.uploads].sort()).toEqual([...blobs].sort());
  });
});
