import { join } from 'node:path';
import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from '../support/describe-unless';
import { whyMissing, ALERT_NAMES, firstCommands, section } from '../support/doc-commands';
import { MEMORY_GIB, REPLICAS, World } from '../support/incidents/world';
import { writeRepository } from '../support/repository';
import { IS_LONG } from '../support/soak';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';
import { whyNoSmallDisk } from '../support/small-disk';

/**
 * Incidents: the alert fires, the commands of its section show the cause, which they did not show before, and the alert ends
 * after the cure: commands of the section, and what people outside of the cluster do.
 */

const BUILD_MS = 60 * 60_000;
const INCIDENT_MS = 15 * 60_000;

/** Inputs on which the model `adds` misbehaves. Agents ask it with zeros. */
const HANGS = -1;
const KEEPS = -2;

const program = (version: number, answer: string): string => `import time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.kept = []

    def answer(self, x):
        if x[0] == ${HANGS}:
            print("waits for a lock", flush=True)
            while True:
                time.sleep(1)
        if x[0] == ${KEEPS}:
            self.kept.append(np.ones(${Math.round(0.95 * MEMORY_GIB * 2 ** 30)}, dtype=np.uint8))
        ${answer}

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", self.answer(x) + np.float32(${version}))]))
        return responses
`;

const config = (version: number): string =>
  `backend: "python"
max_batch_size: 0
input { name: "x" data_type: TYPE_FP32 dims: -1 }
output { name: "y" data_type: TYPE_FP32 dims: -1 }
version_policy { specific { versions: [${version}] } }
instance_group { count: 1 kind: KIND_CPU }
`;

const model = (name: string, version: number, answer = 'return x'): Record<string, string> => ({
  [`${name}/config.pbtxt`]: config(version),
  [`${name}/${version}/model.py`]: program(version, answer),
});

interface Incident {
  name: string;
  alert: string;
  make: (world: World) => Promise<unknown>;
  /** What the three commands of the section print in the incident, and not on an ordinary day. */
  finds: RegExp;
  /** Whether they show that the replicas are well, so that the cause is outside of them. */
  isUsual?: boolean;
  /** Commands of the section that end the incident, in this order. */
  cure?: readonly string[];
  /** What people outside of the cluster do. */
  repair?: (world: World) => Promise<unknown>;
  /** Whether it is made in each run of the tests, not only in the long form. */
  isQuick?: boolean;
}

const ROLLBACK = 'npm run rollback -- --stack prod';
const DELETE_POD = 'kubectl --context prod --namespace triton delete pod POD';

const send = async ({ kubelet }: World, value: number): Promise<void> => {
  const [pod] = kubelet.serving;
  const x = { name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(value) } as const;
  void pod?.triton.client.infer('adds', [x]).catch(() => undefined);
};

const CORDON = 'kubectl --context prod cordon NODE';

const deletePod = async (world: World): Promise<void> => {
  const [pod] = world.kubelet.serving;
  await world.run(DELETE_POD.replace('POD', pod?.name ?? ''));
};

const INCIDENTS: Incident[] = [
  {
    name: 'the network policy hides the replicas from Prometheus',
    alert: 'TritonDown',
    make: async (world) => (world.isHidden = true),
    finds: /triton-\S+\s+2\/2\s+Running/,
    isUsual: true,
    repair: async (world) => (world.isHidden = false),
    isQuick: true,
  },
  {
    name: 'a release fails the requests of clients, but not those of the agents',
    alert: 'TritonRequestsFailing',
    make: (world) =>
      world.publish(
        repository(world, 'bad', {
          ...model('adds', 2, 'return x / 0 if x[0] == 0 else x.missing'),
          ...model('other', 1),
        }),
      ),
    finds: /has no attribute 'missing'/,
    cure: [ROLLBACK],
    isQuick: true,
  },
  {
    name: 'a model in Python hangs in a request',
    alert: 'TritonRequestsStuck',
    make: (world) => send(world, HANGS),
    finds: /waits for a lock/,
    cure: [DELETE_POD],
    isQuick: true,
  },
  {
    name: 'S3 cannot be reached',
    alert: 'TritonHeadUnread',
    make: async ({ bucket }) => bucket.set('away'),
    finds: /"head unreadable".*(ECONNRESET|socket|connection)/i,
    repair: async ({ bucket }) => bucket.set(undefined),
    isQuick: true,
  },
  {
    name: 'the KMS key denies the role of the replicas, and a pod starts',
    alert: 'TritonDownloadFailing',
    make: async (world) => {
      world.bucket.set('key denied');
      await deletePod(world);
    },
    finds: /"failed".*kms:Decrypt/,
    repair: async ({ bucket }) => bucket.set(undefined),
  },
  {
    name: 'a pod starts on a disk that is full',
    alert: 'TritonDownloadFailing',
    make: async (world) => {
      const before = world.kubelet.running;
      world.kubelet.diskBytes = 8192;
      await deletePod(world);
      await until('its successor runs', () => world.kubelet.running.some((pod) => !before.includes(pod)));
      world.kubelet.diskBytes = undefined;
    },
    finds: /"failed".*disk of this pod/,
    cure: [CORDON, DELETE_POD],
    // Karpenter starts another node for the pod.
    repair: async ({ plane }) => plane.addGpuNode('gpu-disk'),
  },
  {
    name: 'a release lacks a model that clients use',
    alert: 'TritonModelGone',
    make: (world) => world.publish(repository(world, 'without', model('adds', 1)), '--prune', '--yes'),
    finds: /removed other/,
    cure: [ROLLBACK],
  },
  {
    name: 'a model keeps memory of a request',
    alert: 'TritonMemoryHigh',
    make: (world) => send(world, KEEPS),
    finds: /(\/proc\/\d+\/status):Name:\s+triton_python\S*\s+\1:VmRSS:\s+[12]\d{6} kB/,
    cure: [DELETE_POD],
  },
  {
    name: 'the driver of a node fails',
    alert: 'TritonGpuMissing',
    make: async (world) => world.loseDriver(world.kubelet.serving[0]?.node ?? ''),
    finds: /couldn't communicate with the NVIDIA driver/,
    cure: [CORDON, DELETE_POD],
    // The node is replaced.
    repair: async ({ plane }) => plane.addGpuNode('gpu-new'),
  },
  {
    name: 'AWS takes two of three spot nodes back',
    alert: 'TritonCapacityLow',
    make: async ({ plane, kubelet }) => {
      const lost = kubelet.serving.slice(0, 2).map(({ node }) => node);
      for (const name of lost) await plane.client.core.deleteNode({ name });
    },
    finds: /\s0\/2\s+Pending\s/,
    repair: async ({ plane }) => {
      for (const index of [3, 4]) await plane.addGpuNode(`gpu-${index}`);
    },
  },
  {
    name: 'a release that does not load is committed untried, and every pod is new',
    alert: 'TritonNotServing',
    make: async (world) => {
      const files = { ...model('adds', 3), ...model('other', 1) };
      files['adds/3/model.py'] = 'raise RuntimeError("a library is missing")\n';
      await world.publish(repository(world, 'unloadable', files), '--untried');
      await world.run('kubectl --namespace triton delete pods --all');
    },
    finds: /a library is missing/,
    cure: [`${ROLLBACK} --untried`],
  },
];

let repositories = 0;

function repository({ scratch }: World, name: string, files: Record<string, string>): string {
  return writeRepository(join(scratch.directory, `repository-${name}-${(repositories += 1)}`), files);
}

const WHY_NOT =
  whyNoGo(['kubernetes', 'kwok', 'promtool', 'pulumi']) ?? whyMissing('kubectl') ?? whyNoSmallDisk('/tmp');

describeUnless(WHY_NOT, 'the runbook in an incident', () => {
  const scratch = new Scratch();
  let world: World;

  beforeAll(async () => {
    world = await World.start(scratch);
    const first = repository(world, 'first', { ...model('adds', 1), ...model('other', 1) });
    await world.publish(first, '--untried');
    world.clients.set('adds', 1).set('other', 1);
    await world.untilHealthy();
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  test.each(INCIDENTS.filter(({ isQuick }) => isQuick === true || IS_LONG))(
    '$name: $alert',
    async ({ alert, make, finds, isUsual, cure = [], repair }) => {
      const { kubelet } = world;
      const firing = async (): Promise<Record<string, string>[]> =>
        (await world.alerts())
          .filter(({ labels, state }) => state === 'firing' && labels['alertname'] === alert)
          .map(({ labels }) => labels);
      const text = section(alert);
      const printAll = async (fill: (command: string) => string): Promise<string> => {
        let printed = '';
        for (const command of firstCommands(alert)) printed += (await world.run(fill(command))).printed;
        return printed;
      };
      const [usual] = kubelet.serving;
      if (isUsual !== true)
        expect(await printAll((command) => command.replace('POD', usual?.name ?? ''))).not.toMatch(finds);

      await make(world);
      await until(`${alert} fires`, async () => (await firing()).length > 0, INCIDENT_MS);

      const [labels = {}] = await firing();
      const { pod: POD = '' } = labels;
      const NODE = kubelet.running.find(({ name }) => name === POD)?.node ?? '';
      const fill = (command: string): string =>
        command.replace('POD', POD).replace('NODE', NODE).replace(/\bN$/, String(REPLICAS));
      let printed = '';
      await until('the commands show the cause', async () => {
        printed = await printAll(fill);
        return finds.test(printed);
      }).catch(() => undefined);
      expect(printed).toMatch(finds);

      const written = text.replaceAll(/\s+/g, ' ');
      for (const command of cure) {
        expect(written).toContain(`\`${command}\``);
        expect(await world.run(fill(command))).toMatchObject({ succeeds: true });
      }
      await repair?.(world);
      await until(`${alert} ends`, async () => (await firing()).length === 0, INCIDENT_MS);
      await world.untilHealthy();
    },
    2 * INCIDENT_MS,
  );

  test(
    'the first commands of every section run',
    async () => {
      const [pod] = world.kubelet.serving;
      for (const command of new Set(ALERT_NAMES.flatMap((alert) => firstCommands(alert)))) {
        const { succeeds, printed } = await world.run(command.replace('POD', pod?.name ?? ''));
        if (!succeeds) throw new Error(`${command}: ${printed}`);
      }
    },
    INCIDENT_MS,
  );
});
