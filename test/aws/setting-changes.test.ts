import { CONFIG_FIELDS } from '../../infra/settings/config';
import { POOL_FIELDS } from '../../infra/settings/pool-fields';
import { awsStack, whyNoAwsStack } from '../support/aws-stack';
import { ControlPlane } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { serveLoadBalancers } from '../support/load-balancers';
import { localStack } from '../support/local-stack';
import { POOL_LABELS, SETTING_CHANGES, SHAPES, type Shape } from '../support/setting-changes';
import { readTable, tryChange, writeTable, type Row } from '../support/settings-table';
import { IS_LONG } from '../support/soak';
import { defineStubCrds } from '../support/stub-crds';
import type { TestStack } from '../support/stack';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 60 * 60_000;
/** UPDATE_DOCS=1 writes the table. */
const UPDATE = process.env['UPDATE_DOCS'] === '1';

test('docs/infrastructure.md has each setting, and each field of a pool', () => {
  const names = SETTING_CHANGES.map(({ setting }) => setting);
  expect(new Set(names).size).toBe(names.length);
  const tried = new Set(names.map((setting) => setting.replace(/ \(.*/, '')));
  const pool = Object.keys(POOL_FIELDS).map((field) => `gpuNodePools: ${field}`);
  const all = [...Object.keys(CONFIG_FIELDS).filter((key) => key !== 'gpuNodePools'), ...pool];
  expect([...tried].sort()).toEqual(all.sort());
  if (!UPDATE)
    expect(
      readTable()
        .map(({ setting }) => setting)
        .sort(),
    ).toEqual(names.sort());
});

// Each run checks a few rows, in live-stack.test.ts.
if (IS_LONG || UPDATE) {
  describeUnless(whyNoAwsStack(), 'each setting, changed alone on a live stack', () => {
    const made: Row[] = [];
    const failures: string[] = [];

    /** Previews all changes of a shape, two at a time. */
    async function tryAll(stack: TestStack, shape: Shape, kubeconfig = ''): Promise<void> {
      const queue = SETTING_CHANGES.filter((change) => change.shape === shape).map((change) =>
        change.setting === 'kubeconfig' ? { ...change, secrets: { kubeconfig } } : change,
      );
      const work = async (): Promise<void> => {
        for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
          const { setting } = next;
          await tryChange(stack, next).then(
            (row) => made.push(row),
            (error: unknown) => failures.push(`${setting}: ${String(error)}`),
          );
        }
      };
      await Promise.all([work(), work()]);
    }

    const withScratch = async (work: (scratch: Scratch) => Promise<void>): Promise<void> => {
      const scratch = new Scratch();
      await work(scratch).finally(() => scratch.clean());
    };

    test(
      'which creates its network, cluster and bucket',
      () =>
        withScratch(async (scratch) => {
          const options = { config: SHAPES.auto, nodeLabels: POOL_LABELS };
          const { stack, plane } = await awsStack(scratch, 'staging', options);
          stack.env['KUBECONFIG'] = plane.access.kubeconfigFile();
          await defineStubCrds(plane, ['keda.sh', 'monitoring.coreos.com']);
          serveLoadBalancers(plane, scratch);
          await stack.up();
          await tryAll(stack, 'auto');
          stack.configure(SHAPES.groups);
          await stack.up();
          await tryAll(stack, 'groups');
        }),
      BUILD_MS,
    );

    test(
      'which uses an existing cluster and another S3 API',
      () =>
        withScratch(async (scratch) => {
          const plane = await ControlPlane.start(scratch);
          for (const index of [0, 1, 2]) await plane.addGpuNode(`gpu-${index}`);
          const stack = await localStack(scratch, plane, { config: SHAPES.existing });
          serveLoadBalancers(plane, scratch);
          await stack.up();
          await tryAll(stack, 'existing', plane.access.kubeconfig().replaceAll('127.0.0.1', 'localhost'));
        }),
      BUILD_MS,
    );

    test('gives the rows of docs/infrastructure.md', async () => {
      // A row that this run did not try stays as it is.
      const rows = readTable().filter(({ setting }) => !made.some((row) => row.setting === setting));
      const order = SETTING_CHANGES.map(({ setting }) => setting);
      const sorted = [...rows, ...made].sort((a, b) => order.indexOf(a.setting) - order.indexOf(b.setting));
      if (UPDATE) await writeTable(sorted);
      expect(failures).toEqual([]);
      expect([...readTable()].sort((a, b) => order.indexOf(a.setting) - order.indexOf(b.setting))).toEqual(sorted);
    });
  });
}
