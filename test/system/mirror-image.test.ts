import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { delimiter, join } from 'node:path';
import { CreateRepositoryCommand, ECRClient, GetAuthorizationTokenCommand } from '@aws-sdk/client-ecr';
import { main } from '../../scripts/mirror-image';
import { copyTag } from '../../infra/images/mirrored-image';
import { Progress } from '../../src/cli/progress';
import { shellWord } from '../../src/core/format';
import { paths } from '../../src/core/paths';
import { CRANE } from '../../src/install/crane';
import { ensurePython } from '../../src/install/python';
import { buildCrane } from '../../tools/toolchain/crane';
import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from '../support/describe-unless';
import { ECR_HOST, startEcr, type Ecr } from '../support/ecr';
import { listenOnLoopback } from '../support/loopback';
import { testMoto } from '../support/moto';
import { pushImage, startRegistry, type Registry } from '../support/registry';
import { startCommandLine } from '../support/run';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

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
  let target: Registry;
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
    target = await startRegistry(scratch, crane, python);
    ecr = await startEcr(scratch, target, password);
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
    const values = { availabilityZones: ['us-east-1a', 'us-east-1b'], mirrorImages: true, ...settings };
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

  /** Pushes an image, and creates a stack that uses it. */
  async function createImage(tag: string, settings: object = {}) {
    const pushed = await pushImage(source, 'nvidia/tritonserver', tag);
    const agent = await pushImage(source, 'library/node', tag);
    const image = `${source.host}/nvidia/tritonserver:${tag}`;
    const agentImage = `${source.host}/library/node:${tag}`;
    const { stack, args } = await createStack({ image, agentImage, ...settings });
    const blobs = [...pushed.blobs, ...agent.blobs];
    return {
      ...pushed,
      blobs,
      image,
      stack,
      args,
      target: `${ECR_HOST}/triton-${stack}/tritonserver@${pushed.digest}`,
    };
  }

  const writes = (): string[] => ecr.calls.map(({ action }) => action).filter((action) => !/:Batch/.test(action));

  test('copies the index of a tag, and nothing the second time', async () => {
    const { digest, blobs, image, stack, args, target } = await createImage('26.11-py3');
    const first = await run(args);
    expect([first.stderr, first.code]).toEqual([expect.stringMatching(/^ok {3}crane.*\n(ok {3}copy .*\n){2}$/), 0]);
    const next = `Next: pulumi up --stack ${stack}\n`;
    expect(first.stdout).toMatch(
      new RegExp(`^copied {3}${image} -> ${target} \\(80\\.\\d kB\\)\\ncopied .*node.*\\n${next}$`),
    );
    expect([...ecr.uploads].sort()).toEqual([...blobs].sort());

    // The tag of the source moves, and the copy stays.
    await pushImage(source, 'nvidia/tritonserver', '26.11-py3');
    ecr.calls.length = 0;
    const second = await run([...args, '--json']);
    expect(JSON.parse(second.stdout)).toEqual({
      stack,
      dryRun: false,
      images: [
        { source: image, digest, target, tag: copyTag(image), result: 'present' },
        expect.objectContaining({ result: 'present' }),
      ],
    });
    expect(writes()).toEqual([]);
  });

  test('an image of another registry with the same tag is another copy', async () => {
    const { args, stack } = await createImage('same');
    expect((await run(args)).code).toBe(0);
    const other = await pushImage(source, 'acme/tritonserver', 'same');
    const file = join(args[3] as string, `Pulumi.${stack}.yaml`);
    writeFileSync(file, readFileSync(file, 'utf8').replace('nvidia/', 'acme/'));
    expect(JSON.parse((await run([...args, '--json'])).stdout)).toMatchObject({
      images: [{ digest: other.digest, result: 'copied' }, { result: 'present' }],
    });
  });

  test('copies both images by the digests in their names', async () => {
    const agent = await pushImage(source, 'library/node', '24-slim');
    const triton = await pushImage(source, 'nvidia/tritonserver', 'moving');
    await pushImage(source, 'nvidia/tritonserver', 'moving');
    const { args } = await createStack({
      image: `${source.host}/nvidia/tritonserver@${triton.digest}`,
      agentImage: `${source.host}/library/node:24-slim@${agent.digest}`,
    });
    const { stdout } = await run([...args, '--json']);
    const start = (digest: string): string => digest.slice('sha256:'.length, 'sha256:'.length + 12);
    expect((JSON.parse(stdout) as { images: object[] }).images).toMatchObject([
      { digest: triton.digest, tag: start(triton.digest), result: 'copied' },
      { digest: agent.digest, tag: `24-slim-${start(agent.digest)}`, result: 'copied' },
    ]);
  });

  test('--dry-run copies nothing', async () => {
    const { args, digest } = await createImage('dry');
    const { code, stdout } = await run([...args, '--dry-run', '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      dryRun: true,
      images: [{ digest, result: 'missing' }, { result: 'missing' }],
    });
    expect(writes()).toEqual([]);
    expect((await run([...args, '--dry-run'])).stdout).toMatch(/^(missing {2}.*\n){2}$/);
  });

  test('uploads only the missing parts after an interrupted copy', async () => {
    const { args, blobs } = await createImage('interrupted');
    ecr.breakAfter = 2;
    const { code, stderr } = await run(args);
    expect(code).toBe(1);
    expect(stderr).toContain('run the command again, which copies only what is missing');
    ecr.breakAfter = Infinity;
    expect(await run(args)).toMatchObject({ code: 0 });
    expect([...ecr.uploads].sort()).toEqual([...blobs].sort());
  });

  test('deletes its configuration after Ctrl-C', async () => {
    const { args } = await createImage('ctrl-c');
    const temporary = join(scratch.directory, 'temporary');
    mkdirSync(temporary);
    let isUploading = false;
    ecr.beforeUpload = () => ((isUploading = true), new Promise(() => undefined));
    const command = startCommandLine('mirror-image', args, { TMPDIR: temporary });
    await until('an upload is in flight', () => isUploading);
    expect(readdirSync(temporary)).toEqual([expect.stringMatching(/^triton-serving-crane-/)]);
    command.kill('SIGINT');
    const { code, stderr } = await command.finished;
    expect([code, stderr]).toEqual([130, expect.stringContaining('run the command again to continue')]);
    expect(readdirSync(temporary)).toEqual([]);
  });

  test('the password is in no command line, file or output', async () => {
    const { args } = await createImage('secret');
    const { stdout, stderr } = await run(args);
    const recorded = readFileSync(log, 'utf8');
    expect(recorded).toContain('crane copy');
    expect(recorded).toContain(`"${ECR_HOST}":`);
    expect(password).not.toBe('');
    expect(recorded + stdout + stderr).not.toContain(password);
  });

  test('keeps the sign-ins of the user', async () => {
    const folder = process.env['DOCKER_CONFIG'] as string;
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'config.json'), JSON.stringify({ credHelpers: { 'nvcr.io': 'ngc' }, auths: { a: {} } }));
    const { args } = await createImage('sign-ins');
    expect(await run(args)).toMatchObject({ code: 0 });
    expect(readFileSync(log, 'utf8')).toMatch(/"credHelpers":\{"nvcr.io":"ngc","\d+\.dkr.*"auths":|"auths":.*"ngc"/);
    writeFileSync(join(folder, 'config.json'), '{');
    expect((await run(args)).stderr).toContain(`${folder}/config.json is not valid JSON`);
    rmSync(folder, { recursive: true });
  });

  test('docs/iam/mirror.json has the rights that a copy needs', async () => {
    const { args } = await createImage('rights');
    await run(args);
    const { Statement } = JSON.parse(readFileSync(join(paths.root, 'docs/iam/mirror.json'), 'utf8')) as {
      Statement: { Action: string | string[] }[];
    };
    const needed = new Set([
      // Requests of the AWS SDK.
      'ecr:GetAuthorizationToken',
      'ecr:DescribeRepositories',
      ...ecr.calls.map(({ action }) => action),
    ]);
    expect(Statement.flatMap(({ Action }) => Action).sort()).toEqual([...needed].sort());
  });

  test.each<[what: string, make: () => Promise<{ args: string[]; says: RegExp[] }>]>([
    [
      'a stack without mirrorImages',
      async () => ({
        args: (await createStack({ mirrorImages: false })).args,
        says: [/mirrorImages is false\n {2}-> run "pulumi config set --stack s\d+ mirrorImages true"/],
      }),
    ],
    [
      'a stack without repositories',
      async () => ({
        args: (await createStack({}, false)).args,
        says: [/no ECR repository yet: .*triton-s\d+\/tritonserver.*\n {2}-> run "pulumi up" first/],
      }),
    ],
    [
      'an image that does not exist',
      async () => ({
        args: (await createStack({ image: `${source.host}/nvidia/tritonserver:0.0` })).args,
        says: [/tritonserver:0\.0 does not exist\n {2}-> check image and agentImage in the stack file/],
      }),
    ],
    [
      'a digest that does not exist',
      async () => ({
        args: (await createStack({ image: `${source.host}/nvidia/tritonserver@sha256:${'0'.repeat(64)}` })).args,
        says: [/cannot copy .*(MANIFEST|NAME)_UNKNOWN.*\n {2}-> check image and agentImage in the stack file/],
      }),
    ],
    [
      'a registry that requires a login',
      async () => {
        const server = createServer((_, reply) => {
          reply.writeHead(401, { 'www-authenticate': 'Basic realm="nvcr"', 'content-type': 'application/json' });
          reply.end('{"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}');
        });
        const { port, stop } = await listenOnLoopback(server);
        scratch.defer(stop);
        return {
          args: (await createStack({ image: `127.0.0.1:${port}/private/triton:1` })).args,
          says: [
            /cannot copy 127\.0\.0\.1:\d+\/private\/triton:1: .*UNAUTHORIZED/,
            /-> sign in: docker login 127\.0\.0\.1:\d+/,
          ],
        };
      },
    ],
    [
      'a registry that cannot be reached',
      async () => ({
        args: (await createStack({ image: '127.0.0.1:1/nvidia/tritonserver:1' })).args,
        says: [/connection refused\n {2}-> check the network, HTTPS_PROXY and SSL_CERT_FILE/],
      }),
    ],
    [
      'a caller who may not upload',
      async () => {
        ecr.denied.add('ecr:InitiateLayerUpload');
        return {
          args: (await createImage('denied')).args,
          says: [/not authorized to perform: ecr:InitiateLayerUpload on .*\n {2}-> allow it: docs\/iam\/mirror.json/],
        };
      },
    ],
    [
      'a caller who may not read',
      async () => {
        ecr.denied.add('ecr:BatchGetImage');
        return {
          args: (await createImage('unreadable')).args,
          says: [/ecr:BatchGetImage on .*\n {2}-> allow it: docs\/iam\/mirror.json/],
        };
      },
    ],
    [
      'a tag that another copy sets meanwhile',
      async () => {
        const { args, image } = await createImage('race');
        ecr.taken.add(copyTag(image));
        return {
          args,
          says: [/tag is immutable.*\n {2}-> another copy set the tag meanwhile: run the command again/],
        };
      },
    ],
    [
      'a tag with another digest',
      async () => {
        const { digest, stack, args } = await createImage('1');
        const tag = `1-${digest.slice('sha256:'.length, 'sha256:'.length + 12)}`;
        await pushImage(target, `triton-${stack}/tritonserver`, tag);
        const file = join(args[3] as string, `Pulumi.${stack}.yaml`);
        writeFileSync(file, readFileSync(file, 'utf8').replace('tritonserver:1', `tritonserver:1@${digest}`));
        return { args, says: [/has the digest sha256:.* and is no copy of .*\n {2}-> delete this tag/] };
      },
    ],
  ])('reports %s', async (_, make) => {
    const { args, says } = await make();
    const { code, stdout, stderr } = await run(args);
    expect([code, stdout]).toEqual([1, '']);
    for (const pattern of says) expect(stderr).toMatch(pattern);
  });
});
