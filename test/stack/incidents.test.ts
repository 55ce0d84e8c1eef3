import { join } from 'node:path';
import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from '../support/describe-unless';
import { whyMissing, ALERT_NAMES, firstCommands, section } from '../support/doc-commands';
import { REPLICAS, World } from '../support/incidents/world';
import { writeRepository } from '../support/repository';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

/**
 * Incidents: the alert fires, the commands of its section show the cause, which they did not show before, and the alert ends
 * after the cure: commands of the section, and what people outside of the cluster do.
 */

const BUILD_MS = 60 * 60_000;
const INCIDENT_MS = 15 * 60_000;

/** Input on which the model `adds` hangs. Agents ask it with zeros. */
const HANGS = -1;

const program = (version: number, answer: string): string => `import time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def answer(self, x):
        if x[0] == ${HANGS}:
            print("waits for a lock", flush=True)
            while True:
                time.sleep(1)
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
}

const ROLLBACK = 'npm run rollback -- --stack prod';
const DELETE_POD = 'kubectl --context prod --namespace triton delete pod POD';

/** Files of a release that fails the requests of clients, but not those of the agents. */
const BAD = { ...model('adds', 2, 'return x / 0 if x[0] == 0 else x.missing'), ...model('other', 1) };

const INCIDENTS: Incident[] = [
  {
    name: 'the network policy hides the replicas from Prometheus',
    alert: 'TritonDown',
    make: async (world) => (world.isHidden = true),
    finds: /triton-\S+\s+2\/2\s+Running/,
    isUsual: true,
    repair: async (world) => (world.isHidden = false),
  },
  {
    name: 'a release fails the requests of clients, but not those of the agents',
    alert: 'TritonRequestsFailing',
    make: (world) => world.publish(repository(world, 'bad', BAD), '--bake', '0'),
    finds: /has no attribute 'missing'/,
    cure: [ROLLBACK],
  },
  {
    name: 'a model in Python hangs in a request',
    alert: 'TritonRequestsStuck',
    make: async ({ kubelet }) => {
      const x = { name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(HANGS) } as const;
      void kubelet.serving[0]?.triton.client.infer('adds', [x]).catch(() => undefined);
    },
    finds: /waits for a lock/,
    cure: [DELETE_POD],
  },
  {
    name: 'S3 cannot be reached',
    alert: 'TritonHeadUnread',
    make: async ({ bucket }) => bucket.setAway(true),
    finds: /"head unreadable".*(ECONNRESET|socket|connection)/i,
    repair: async ({ bucket }) => bucket.setAway(false),
  },
];

let repositories = 0;

function repository({ scratch }: World, name: string, files: Record<string, string>): string {
  return writeRepository(join(scratch.directory, `repository-${name}-${(repositories += 1)}`), files);
}

const WHY_NOT = whyNoGo(['kubernetes', 'kwok', 'promtool', 'pulumi']) ?? whyMissing('kubectl');

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

  test.each(INCIDENTS)(
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

  test(
    'with the bake of the stack, the release that fails the requests of clients goes back by itself',
    async () => {
      const bad = repository(world, 'bad', BAD);
      const { succeeds, printed } = await world.run(`npm run sync-models -- --stack prod --repo ${bad}`);
      expect(succeeds).toBe(false);
      expect(printed).toMatch(
        /the release answers worse than the one before it: adds 2: 100% of \d+ requests failed, and 0% of/,
      );
      const { printed: listed } = await world.run('npm run releases -- --stack prod');
      expect(listed).toMatch(/adds 1 -> 2; bake worse after .* requests: adds 2: 100% of/);
    },
    INCIDENT_MS,
  );

  test('after the incidents, status finds that every replica serves the release, and releases lists the rollback', async () => {
    expect(await world.run('npm run status -- --stack prod --ask')).toMatchObject({ succeeds: true });
    const { printed } = await world.run('npm run releases -- --stack prod');
    expect(printed).toMatch(/\* .* rollback to \S+ +adds 2 -> 1/);
  });

  test.each([
    { kind: 'random', warned: ['warning: random weights are published to prod: adds'] },
    { kind: 'pretrained', warned: [] },
  ])('sync-models with $kind weights: warnings $warned', async ({ kind, warned }) => {
    const record = JSON.stringify({ weights: { kind, description: 'of a test' } });
    const files = { ...model('adds', 3), 'adds/3/model.py.trace.json': record };
    const flags = `--repo ${repository(world, kind, files)} --dry-run`;
    const { printed } = await world.run(`npm run sync-models -- --stack prod ${flags}`);
    expect(printed.match(/warning: random weights .*/g) ?? []).toEqual(warned);
    expect(printed).not.toContain(world.plane.access.token());
  });
});
