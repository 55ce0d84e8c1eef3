import { spawn, type ChildProcess } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KubernetesObject, V1Pod } from '@kubernetes/client-node';
import { BatchV1Api } from '@kubernetes/client-node';
import { builder } from '../../infra/triton/builder';
import { readArguments } from '../../infra/triton/rules';
import { Progress } from '../../src/cli/progress';
import { exec, type CommandError } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { ensurePython } from '../../src/local/install/python';
import { freePorts } from '../../src/local/process/ports';
import type { Manifest } from '../../src/release/manifest';
import { isCompiled } from '../../src/model/torch-files';
import { whyNoGo } from '../../tools/toolchain/go';
import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { scaling } from '../support/local-models';
import { modelYaml } from '../support/model-files';
import { ARGS } from '../support/render';
import { writeRepository } from '../support/repository';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

const namespace = 'serving';
const TARGET = '26.11 cpu';
const RESTRICTED = { 'pod-security.kubernetes.io/enforce': 'restricted' };
const WITHOUT_GPUS = { ...ARGS, image: 'mirror.example/nvidia/tritonserver:26.11-py3', gpusPerPod: 0 };

const PLAN_CONFIG = modelYaml({
  platform: 'tensorrt_plan',
  input: [{ name: 'x', data_type: 'TYPE_FP32', dims: [-1] }],
  output: [{ name: 'y', data_type: 'TYPE_FP32', dims: [-1] }],
});
const PLAN_TRACE = `import json
import torch
from torch import nn
from torch.export import Dim
from tracing import OnnxExport, Weights

class Doubled(nn.Module):
    def forward(self, x):
        return x * 2

def save(path):
    axes = {"x": {0: Dim("batch"), 1: Dim("values")}}
    torch.onnx.export(Doubled(), (torch.rand(2, 3),), dynamo=True, input_names=["x"], output_names=["y"],
                      dynamic_shapes=axes, verbose=False).save(path)

def export(context):
    shapes = {"x": {"min": [2], "opt": [3], "max": [4]}}
    return OnnxExport(eager=Doubled(), save=save, tolerance=0, weights=Weights.none(),
                      fresh_inputs=[(torch.rand(*shape),) for shape in [(1, 3), (8, 5)]],
                      extra_files={f"{context.version}/plan.json": json.dumps(shapes).encode()})
`;
/** Notes its arguments, and answers with twice the values that it is given. No GPU is here for the real one. */
const TRTEXEC = (calls: string): string => `#!/usr/bin/env python3
import json, struct, sys
open("${calls}", "a").write(" ".join(sys.argv[1:]) + "\\n")
given = dict(one.lstrip("-").split("=", 1) for one in sys.argv[1:] if "=" in one)
if "saveEngine" in given:
    open(given["saveEngine"], "w").write("plan")
if "exportOutput" in given:
    data = open(given["loadInputs"].split(":", 1)[1], "rb").read()
    values = [2 * value for value in struct.unpack(f"<{len(data) // 4}f", data)]
    answer = {"name": "y", "dimensions": given["shapes"].split(":")[1], "values": values}
    open(given["exportOutput"], "w").write(json.dumps([answer]))
`;

/** Runs the containers of the builder's pods as processes of this machine, in place of a kubelet. */
class Kubelet {
  readonly started: string[] = [];
  private readonly processes = new Map<string, ChildProcess>();
  private following: Promise<void> = Promise.resolve();
  private isStopping = false;
  path = process.env['PATH'];

  constructor(
    private readonly plane: ControlPlane,
    private readonly scratch: Scratch,
    /** In place of python3 of the image. */
    public python: string,
  ) {}

  start(): void {
    this.following = (async () => {
      while (!this.isStopping) {
        await this.update().catch(() => undefined);
        await sleep(200);
      }
    })();
  }

  async stop(): Promise<void> {
    this.isStopping = true;
    await this.following;
    for (const child of this.processes.values()) child.kill('SIGKILL');
  }

  /** Ends the process of the pod, as when it has no memory. */
  kill(): void {
    [...this.processes.values()].at(-1)?.kill('SIGKILL');
  }

  private async update(): Promise<void> {
    const pods = await this.plane.pods(namespace);
    for (const [uid, child] of this.processes) {
      if (!pods.some(({ metadata }) => metadata?.uid === uid)) child.kill('SIGKILL');
    }
    for (const pod of pods) {
      const { name = '', uid = '', deletionTimestamp } = pod.metadata ?? {};
      if (pod.spec?.nodeName === undefined) continue;
      if (deletionTimestamp !== undefined) {
        this.processes.get(uid)?.kill('SIGKILL');
        await this.plane.client.core.deleteNamespacedPod({ namespace, name, gracePeriodSeconds: 0 });
      } else if (!this.processes.has(uid)) await this.begin(pod, name, uid);
    }
  }

  private async begin(pod: V1Pod, name: string, uid: string): Promise<void> {
    const [, ...args] = pod.spec?.containers[0]?.command ?? [];
    const [port = 0] = await freePorts(1);
    const directory = join(this.scratch.directory, uid);
    mkdirSync(directory);
    const env = { PATH: this.path, HOME: directory, TMPDIR: join(directory, 'tmp') };
    const child = spawn(this.python, [...args.slice(0, -1), String(port)], { cwd: directory, env, stdio: 'ignore' });
    this.processes.set(uid, child);
    this.started.push(name);
    const exit = new Promise<number>((resolve) => child.once('exit', (code) => resolve(code ?? 137)));
    await this.plane.client.objects.create({
      ...{ apiVersion: 'kwok.x-k8s.io/v1alpha1', kind: 'PortForward', metadata: { name, namespace } },
      spec: { forwards: [{ target: { address: '127.0.0.1', port } }] },
    } as KubernetesObject);
    await this.report(pod, 'Running', { running: {} });
    // The pod may be deleted.
    void exit.then((exitCode) => this.report(pod, 'Failed', { terminated: { exitCode } })).catch(() => undefined);
  }

  private async report({ metadata }: V1Pod, phase: string, state: object): Promise<void> {
    const { name = '' } = metadata ?? {};
    const body = await this.plane.client.core.readNamespacedPod({ namespace, name });
    const ready = phase === 'Running';
    body.status = {
      phase,
      conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
      containerStatuses: [{ name: 'builder', image: '', imageID: '', ready, restartCount: 0, state }],
    };
    await this.plane.client.core.replaceNamespacedPodStatus({ namespace, name, body });
  }
}

describeUnless(whyNoGo(['kubernetes', 'kwok']), 'npm run build -- --stack', () => {
  const scratch = new Scratch();
  let plane: ControlPlane;
  let kubelet: Kubelet;
  let python: string;
  let env: NodeJS.ProcessEnv;
  let store: Awaited<ReturnType<typeof openBucket>>;

  const run = async (script: string, ...args: string[]) => {
    const ended = exec('npm', ['run', '--silent', script, '--', ...args], { cwd: paths.root, env });
    return ended.then(
      ({ stdout, stderr }) => ({ code: 0, text: stdout + stderr }),
      (error: unknown) => {
        const { exitCode: code, output, message } = error as CommandError;
        return { code, text: `${output.stdout}${output.stderr}${message}` };
      },
    );
  };
  /** A traced model that multiplies, so that each has another program. */
  const trace = async (name: string, factor: number): Promise<string> => {
    const folder = writeRepository(join(scratch.directory, `models-${name}`), scaling(name, factor));
    expect(await run('trace', '--repo', folder)).toMatchObject({ code: 0 });
    return folder;
  };
  const jobs = async () =>
    (await plane.config.makeApiClient(BatchV1Api).listNamespacedJob({ namespace })).items.map(
      ({ metadata }) => metadata?.name,
    );

  beforeAll(async () => {
    const s3 = await testS3(scratch);
    store = await openBucket(scratch, s3.endpoint, 'models');
    plane = await ControlPlane.start(scratch, { simulatePods: false });
    await plane.addNode({ name: 'node-0' });
    await plane.client.core.createNamespace({ body: { metadata: { name: namespace, labels: RESTRICTED } } });
    await until('pods may be created', async () => {
      return (await plane.client.core.listNamespacedServiceAccount({ namespace })).items.length > 0;
    });
    ({ python } = await ensurePython(new Progress(process.stderr, true).step('')));
    kubelet = new Kubelet(plane, scratch, python);
    kubelet.start();
    scratch.defer(() => kubelet.stop());
    const bin = join(scratch.directory, 'bin');
    mkdirSync(bin);
    const outputs = {
      ...{ modelRepository: 's3://models/m', region: 'us-east-1', endpointUrl: s3.endpoint, namespace },
      ...{ podSelector: 'app=triton', kubeconfig: plane.access.kubeconfig() },
      builder: builder(readArguments('triton', WITHOUT_GPUS)),
    };
    writeFileSync(join(bin, 'outputs.json'), JSON.stringify(outputs));
    writeFileSync(join(bin, 'trtexec'), TRTEXEC(join(scratch.directory, 'trtexec.calls')));
    chmodSync(join(bin, 'trtexec'), 0o755);
    kubelet.path = `${bin}${delimiter}${process.env['PATH']}`;
    writeFileSync(join(bin, 'pulumi'), `#!/bin/sh\ncat ${join(bin, 'outputs.json')}\n`);
    chmodSync(join(bin, 'pulumi'), 0o755);
    env = { ...process.env, ...S3_ENVIRONMENT, PATH: `${bin}${delimiter}${process.env['PATH']}` };
  }, 30 * 60_000);
  afterAll(() => scratch.clean());

  test('a program is compiled in a Job with restricted pods, and published for that stack only', async () => {
    const folder = await trace('doubled', 2);
    const publish = ['--stack', 'test', '--repo', folder, '--untried', '--json'];
    const refused = await run('sync-models', ...publish);
    expect(refused).toMatchObject({ code: 1 });
    expect(refused.text).toContain(
      `has to be compiled before Triton serves it: for its release and processor, ${TARGET}`,
    );
    expect(refused.text).toContain('npm run build -- --stack NAME --models doubled --repo');

    const first = await run('build', '--stack', 'test', '--repo', folder);
    expect(first).toMatchObject({ code: 0 });
    expect(first.text).toMatch(/^doubled 1: compiled in .+; golden requests differ by at most 0\.0$/m);
    expect(await jobs()).toEqual([]);
    expect((await run('build', '--stack', 'test', '--repo', folder)).text).toBe('doubled 1: up to date\n');

    expect(await run('sync-models', ...publish)).toMatchObject({ code: 0 });
    const [key = ''] = (await store.list('m.releases/2')).map((object) => object.key);
    const { models } = JSON.parse((await store.get(key))?.body.toString() ?? '') as Manifest;
    expect(models['doubled']?.compiled).toEqual({ 1: { program: expect.any(String) as string, target: TARGET } });
    const published = models['doubled']?.files.find(({ path }) => path === '1/model.pt2');
    const file = join(scratch.directory, 'published.pt2');
    writeFileSync(file, (await store.get(published?.key ?? ''))?.body ?? '');
    expect(isCompiled(file)).toBe(true);
  });

  test('an ONNX file becomes a TensorRT plan, with the shapes of its plan.json', async () => {
    const folder = writeRepository(join(scratch.directory, 'models-plan'), {
      'plan/model.yaml': PLAN_CONFIG,
      'plan/trace.py': PLAN_TRACE,
    });
    expect(await run('trace', '--repo', folder)).toMatchObject({ code: 0 });
    const built = await run('build', '--stack', 'test', '--repo', folder);
    expect(built).toMatchObject({ code: 0 });
    expect(built.text).toMatch(/^plan 1: compiled in .+; golden requests differ by at most 0\.0$/m);
    const calls = readFileSync(join(scratch.directory, 'trtexec.calls'), 'utf8').split('\n');
    expect(calls[0]).toMatch(/--skipInference --noTF32 --minShapes=x:1x2 --optShapes=x:8x3 --maxShapes=x:8x4$/);
    // The request with five values is beyond the plan.
    expect(calls.filter((call) => call.includes('--loadEngine'))).toHaveLength(1);
    const published = await run('sync-models', '--stack', 'test', '--repo', folder, '--untried', '--json');
    expect(published).toMatchObject({ code: 0 });
    const releases = await store.list('m.releases/2');
    const { models } = JSON.parse((await store.get(releases.at(-1)?.key ?? ''))?.body.toString() ?? '') as Manifest;
    expect(models['plan']?.files.map(({ path }) => path)).toEqual(['1/model.plan', '1/plan.json']);
  });

  test.each([
    ['whose process is killed', 3, (): unknown => kubelet.kill()],
    [
      'whose node is gone',
      6,
      // As the garbage collector of Kubernetes deletes it.
      (pod: string) => plane.client.core.deleteNamespacedPod({ namespace, name: pod, gracePeriodSeconds: 0 }),
    ],
  ] as const)('a pod %s is replaced, and gets everything again', async (_, factor, end) => {
    const folder = await trace(`times${factor}`, factor);
    const before = kubelet.started.length;
    const building = run('build', '--stack', 'test', '--repo', folder);
    await until('the pod runs', async () => {
      return (await plane.readyPods(namespace)).length > 0 && kubelet.started.length > before;
    });
    await end(kubelet.started.at(-1) ?? '');
    expect(await building).toMatchObject({
      code: 0,
      text: expect.stringContaining(`times${factor} 1: compiled in`) as string,
    });
    expect(kubelet.started.length).toBe(before + 2);
    expect(await jobs()).toEqual([]);
  });

  test('a Job whose pods fail is reported and deleted', async () => {
    const folder = await trace('fourfold', 4);
    kubelet.python = '/bin/false';
    const failed = await run('build', '--stack', 'test', '--repo', folder);
    kubelet.python = python;
    expect(failed).toMatchObject({ code: 1 });
    expect(failed.text).toMatch(
      /job triton-build-\w+ ended: Job has reached the specified backoff limit \(exit code 1\)/,
    );
    expect(await jobs()).toEqual([]);
  });

  test('Ctrl-C deletes the Job', async () => {
    const folder = await trace('fivefold', 5);
    const before = kubelet.started.length;
    const child = spawn(process.execPath, ['scripts/run.mjs', 'build', '--stack', 'test', '--repo', folder], {
      ...{ cwd: paths.root, env, stdio: 'ignore', detached: true },
    });
    const ended = new Promise((resolve) => child.once('exit', resolve));
    await until('the pod runs', () => kubelet.started.length > before);
    process.kill(-(child.pid as number), 'SIGINT');
    expect(await ended).toBe(130);
    expect(await jobs()).toEqual([]);
  });
});
