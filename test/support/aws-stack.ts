import { ensureKubernetesPlugin, findInstalledPlugin, packageVersion } from '../../tools/toolchain/pulumi';
import { ControlPlane } from './control-plane';
import { defineForeignKinds } from './foreign-kinds';
import { startGate } from './gate';
import { defineKarpenterKinds } from './karpenter';
import { whyNoEngines } from './local-stack';
import { askMoto, testMoto, type Moto } from './moto';
import type { Scratch } from './scratch';
import { TestStack, type StackConfig } from './stack';

export interface AwsStack {
  plane: ControlPlane;
  moto: Moto;
  stack: TestStack;
}

const awsPlugin = () => findInstalledPlugin('aws', packageVersion('@pulumi/aws'));

/** Why there cannot be such a stack here; undefined if there can. */
export function whyNoAwsStack(): string | undefined {
  if (awsPlugin() !== undefined) return whyNoEngines('karpenter');
  return `Pulumi's AWS plugin is not installed: pulumi plugin install resource aws ${packageVersion('@pulumi/aws')}`;
}

export interface AwsStackOptions {
  /** Keys of the stack file that differ from the one in the repository. */
  config?: StackConfig;
  /** Further labels of the nodes that are there for the servers. */
  nodeLabels?: Record<string, string>;
}

/** From where the tests come, as it were. */
export const HERE = '10.9.8.7/32';

/**
 * A stack of the repository with the real AWS provider on a mock of AWS, and its Kubernetes half on a real control
 * plane with three nodes for servers: no machine of the mock ever joins. As in AWS the API is reached from outside only
 * while the cluster has a public endpoint. Nothing of the stack is deployed yet.
 */
export async function awsStack(
  scratch: Scratch,
  name: string,
  { config = {}, nodeLabels = {} }: AwsStackOptions = {},
): Promise<AwsStack> {
  const aws = awsPlugin();
  if (aws === undefined) throw new Error('tests are to ask whyNoAwsStack first');
  const plane = await ControlPlane.start(scratch);
  // Both are EKS Auto Mode's.
  await defineKarpenterKinds(plane);
  await defineForeignKinds(plane, ['eks.amazonaws.com']);
  for (const index of [0, 1, 2]) {
    await plane.addNode({
      name: `gpu-${index}`,
      gpus: 1,
      labels: { 'triton-serving/gpu': 'true', ...nodeLabels },
      taints: [{ key: 'nvidia.com/gpu', value: 'true', effect: 'NoSchedule' }],
    });
  }
  // The gate asks the mock, and the mock names the gate.
  const isPublic = async (): Promise<boolean> => {
    const { cluster } = JSON.parse(await askMoto(moto, 'eks', `/clusters/triton-${name}`)) as {
      cluster: { resourcesVpcConfig: { endpointPublicAccess: boolean } };
    };
    return cluster.resourcesVpcConfig.endpointPublicAccess;
  };
  const gate = await startGate(scratch, Number(new URL(plane.access.server).port), isPublic);
  const moto = await testMoto(scratch, plane.access, `https://127.0.0.1:${gate}`);
  const plugins = [aws, await ensureKubernetesPlugin()];
  return { plane, moto, stack: await TestStack.create(scratch, name, { plugins, config, env: moto.env }) };
}

/** What a preview or an update prints of a policy pack that has nothing against it. */
export function expectPolicyPackPassed(printed: string): void {
  expect(printed).toMatch(
    /Policy Packs run:\s+Name\s+Version\s+triton-serving\S*\s+\d|Policies:\s+✅ triton-serving@v\d/,
  );
  expect(printed).not.toMatch(/\[(mandatory|advisory)\]|can't run policy/);
}

/** Types and names of what an update or a destroy has deleted, in that order, by what Pulumi printed of it. */
export function deletions(printed: string): string[] {
  return [...printed.matchAll(/^ - +(\S+) (\S+) deleted(?: original)? /gm)].map(([, type, name]) => `${type} ${name}`);
}

/** Expects the first of each of these, by a part of its type and name, in this order. */
export function expectInOrder(lines: readonly string[], parts: readonly RegExp[]): void {
  const places = parts.map((part) => lines.findIndex((line) => part.test(line)));
  expect(places.map((place, index) => (place < 0 ? `no ${parts[index]}` : ''))).toEqual(parts.map(() => ''));
  expect(places).toEqual([...places].sort((a, b) => a - b));
}
