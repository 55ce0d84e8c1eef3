import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { awsPlugins, whyNoAwsStack } from '../support/aws-stack';
import { describeUnless } from '../support/describe-unless';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { askMoto, leftovers, testMoto, type Moto } from '../support/moto';
import { TestStack } from '../support/stack';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 60 * 60_000;
const STEP_MS = 5 * 60_000;
const URN = 'urn:pulumi:prod::triton-serving::aws:iam/role:Role::pods';

interface Checkpoint {
  checkpoint: {
    latest: { resources: { urn: string; id?: string; outputs?: object }[]; pending_operations?: object[] };
  };
}

/** docs/ci.md, "A job that was cut off": AWS created a role, and Pulumi ended before it stored the role's id. */
describeUnless(whyNoAwsStack(), 'a stack with a pending create', () => {
  const scratch = new Scratch();
  let moto: Moto;
  let stack: TestStack;

  const setProgram = (name: string | undefined): void => {
    const properties = JSON.stringify({ assumeRolePolicy: '{}', name });
    const text = `new (require('@pulumi/aws/iam').Role)('pods', ${properties});\n`;
    writeFileSync(join(stack.directory, 'role.cjs'), text);
  };

  beforeAll(async () => {
    moto = await testMoto(scratch);
    stack = await TestStack.create(scratch, 'prod', { plugins: await awsPlugins(), env: moto.env });
    writeFileSync(join(stack.directory, 'Pulumi.yaml'), 'name: triton-serving\nruntime: nodejs\nmain: role.cjs\n');
    writeFileSync(join(stack.directory, 'Pulumi.prod.yaml'), 'config:\n  aws:region: us-east-1\n');
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  /** Updates the stack, and changes its state as if Pulumi had ended before AWS answered. */
  const cutOff = async (): Promise<void> => {
    await stack.up();
    const state = JSON.parse(readFileSync(stack.stateFile, 'utf8')) as Checkpoint;
    const { latest } = state.checkpoint;
    const role = latest.resources.find(({ urn }) => urn === URN);
    latest.resources = latest.resources.filter((resource) => resource !== role);
    latest.pending_operations = [{ type: 'creating', resource: { ...role, id: undefined, outputs: undefined } }];
    writeFileSync(stack.stateFile, JSON.stringify(state));
    rmSync(`${stack.stateFile}.attrs`, { force: true }); // Checksums.
  };

  /** The output of the command in docs/ci.md that lists pending creates. */
  const pending = async (): Promise<string> => {
    const text = readFileSync(join(paths.root, 'docs', 'ci.md'), 'utf8');
    const command = /^pulumi stack export --stack prod \| jq .*$/m.exec(text)?.[0] ?? 'false';
    return (await exec('bash', ['-c', command], { cwd: stack.directory, env: stack.env })).stdout.trim();
  };

  test(
    'with a fixed name: up fails because the resource exists, and succeeds after it is deleted',
    async () => {
      setProgram('pods-of-a-test');
      await cutOff();
      expect(await pending()).toBe(URN);
      await stack.pulumi('cancel', '--stack', 'prod', '--yes');
      await expect(stack.up('--refresh')).rejects.toThrow(/already exists/);
      expect(await leftovers(moto)).toContain('pods-of-a-test');
      const form = { 'content-type': 'application/x-www-form-urlencoded' };
      await askMoto(moto, 'iam', '/', form, 'Action=DeleteRole&RoleName=pods-of-a-test&Version=2010-05-08');
      await stack.up('--refresh');
    },
    STEP_MS,
  );

  test(
    'with a generated name: up succeeds, and leaves the first resource',
    async () => {
      await stack.pulumi('refresh', '--stack', 'prod', '--yes', '--skip-preview', '--clear-pending-creates');
      expect(await pending()).toBe('');
      setProgram(undefined);
      await cutOff();
      await stack.up('--refresh');
      // Pulumi keeps the name of a resource that it updates, so the first role still has the fixed one.
      const roles = (await leftovers(moto)).filter((name) => name.startsWith('pods-'));
      expect(roles.sort()).toEqual([expect.stringMatching(/^pods-[0-9a-f]{7}$/), 'pods-of-a-test']);
    },
    STEP_MS,
  );
});
