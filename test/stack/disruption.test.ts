import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { cordon, drain, ServingWatch } from '../support/disruption';
import { Scratch } from '../support/temp-dir';
import { report } from '../support/soak';
import { type TestStack, localStack, NAMESPACE, whyNoEngines } from '../support/stack';
import { until } from '../support/wait-for';

const BUILD_MS = 60 * 60_000;
const ROLL_OUT_MS = 5 * 60_000;
const DRAIN_MS = 2 * 60_000;

const REPLICAS = 3;
const MAY_BE_MISSING = 1;
const DRAINS = 20;

describeUnless(whyNoEngines(), 'servers that are replaced on a real control plane', () => {
  const scratch = new Scratch();
  let plane: ControlPlane;
  let stack: TestStack;
  let selector: string;

  const allServe = (): Promise<void> =>
    until('all servers serve', async () => (await plane.readyPods(NAMESPACE, selector)).length === REPLICAS);
  const watched = async (work: () => Promise<void>): Promise<{ fewest: number; changes: number }> => {
    const watch = await ServingWatch.start(plane, NAMESPACE, selector);
    await work();
    return watch.end();
  };
  const isOldGone = (names: readonly (string | undefined)[]) => async (): Promise<boolean> =>
    (await plane.pods(NAMESPACE, selector)).every(({ metadata }) => !names.includes(metadata?.name));
  const podNames = async (): Promise<(string | undefined)[]> =>
    (await plane.pods(NAMESPACE, selector)).map(({ metadata }) => metadata?.name);

  beforeAll(async () => {
    plane = await ControlPlane.start(scratch);
    for (let index = 0; index < REPLICAS; index += 1) await plane.addGpuNode(`gpu-${index}`);
    stack = await localStack(scratch, plane, { replicas: REPLICAS, rollout: { maxUnavailable: MAY_BE_MISSING } });
    await stack.up();
    selector = (await stack.outputs())['podSelector'] as string;
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  test(
    'pulumi up without a spare GPU replaces replicas one at a time',
    async () => {
      const before = await podNames();
      const seen = await watched(async () => {
        stack.configure({ environment: { CHANGED: 'yes' } });
        await stack.up();
        await until('no old one is left', isOldGone(before));
      });
      // Without a spare GPU one replica has to be missing. The changes prove that the watch saw the replacements.
      expect(seen.fewest).toBe(REPLICAS - MAY_BE_MISSING);
      expect(seen.changes).toBeGreaterThanOrEqual(3 * REPLICAS);
    },
    ROLL_OUT_MS,
  );

  test(
    `${DRAINS} nodes are drained, two at a time, within the disruption budget`,
    async () => {
      await plane.addGpuNode('gpu-spare');
      const names = [...Array(REPLICAS).keys()].map((index) => `gpu-${index}`).concat('gpu-spare');
      let refused = 0;
      for (let round = 0; round < DRAINS / 2; round += 1) {
        const pair = [names[round % names.length], names[(round + 1) % names.length]] as [string, string];
        const { fewest } = await watched(async () => {
          refused += (await Promise.all(pair.map((node) => drain(plane, node)))).reduce((sum, count) => sum + count, 0);
          for (const node of pair) await cordon(plane, node, false);
          await allServe();
        });
        expect(fewest).toBeGreaterThanOrEqual(REPLICAS - MAY_BE_MISSING);
      }
      // The disruption budget refused some evictions.
      expect(refused).toBeGreaterThan(0);
      report('drains', { done: DRAINS, 'evictions refused': refused });
    },
    DRAINS * DRAIN_MS,
  );

  test(
    'pulumi up with a spare GPU and strategy surge keeps all replicas serving',
    async () => {
      stack.configure({ rollout: { maxSurge: 1, maxUnavailable: 0 } });
      await stack.up();
      const before = await podNames();
      const { fewest } = await watched(async () => {
        stack.configure({ environment: { CHANGED: 'again' } });
        await stack.up();
        await until('no old one is left', isOldGone(before));
      });
      expect(fewest).toBe(REPLICAS);
    },
    ROLL_OUT_MS,
  );
});
