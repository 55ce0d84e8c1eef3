import {
  ensureKubernetesPlugin,
  findInstalledPlugin,
  packageVersion,
  type ResourcePlugin,
} from '../../tools/toolchain/pulumi';
import { ControlPlane } from './control-plane';
import { defineStubCrds } from './stub-crds';
import { startConditionalProxy } from './conditional-proxy';
import { defineKarpenterKinds, keepPoolsReady } from './karpenter';
import { awsPermissionsFor } from './aws-requests';
import { readCiPolicy } from './ci-policies';
import { decide } from './iam';
import { whyNoEngines } from './local-stack';
import { askMoto, createGithubProvider, testMoto, type Moto } from './moto';
import { startRecordingProxy, type RecordingProxy } from './recording-proxy';
import type { Scratch } from './temp-dir';
import { TestStack, type StackConfig } from './stack';

export interface AwsStack {
  plane: ControlPlane;
  moto: Moto;
  stack: TestStack;
  /** Between the providers and the mock. */
  tap: RecordingProxy;
}

const awsPlugin = () => findInstalledPlugin('aws', packageVersion('@pulumi/aws'));

/** Why this machine cannot run such a stack; undefined if it can. */
export function whyNoAwsStack(): string | undefined {
  if (awsPlugin() !== undefined) return whyNoEngines('karpenter');
  return `Pulumi's AWS plugin is not installed: pulumi plugin install resource aws ${packageVersion('@pulumi/aws')}`;
}

/** The providers of AWS and Kubernetes. */
export async function awsPlugins(): Promise<ResourcePlugin[]> {
  const aws = awsPlugin();
  if (aws === undefined) throw new Error('tests are to ask whyNoAwsStack first');
  return [aws, await ensureKubernetesPlugin()];
}

export interface AwsStackOptions {
  /** Keys of the stack file that differ from the one in the repository. */
  config?: StackConfig;
  /** Additional labels of the nodes for Triton. */
  nodeLabels?: Record<string, string>;
}

/** Address range from which the tests pretend to connect. */
export const HERE = '10.9.8.7/32';

/**
 * Creates a stack of this project with the real AWS provider on a mock of AWS. Its Kubernetes resources go to a real
 * control plane with three nodes for Triton, because machines of the mock never join. As in AWS, the Kubernetes API is
 * reachable from outside only while the cluster has a public endpoint. Nothing is deployed yet.
 */
export async function awsStack(
  scratch: Scratch,
  name: string,
  { config = {}, nodeLabels = {} }: AwsStackOptions = {},
): Promise<AwsStack> {
  const plane = await ControlPlane.start(scratch);
  // EKS Auto Mode has both.
  await defineKarpenterKinds(plane);
  await defineStubCrds(plane, ['eks.amazonaws.com']);
  keepPoolsReady(plane, scratch);
  for (const index of [0, 1, 2]) {
    await plane.addGpuNode(`gpu-${index}`, { labels: { 'triton-serving/gpu': 'true', ...nodeLabels } });
  }
  // The gate queries the mock, and the mock returns the address of the gate.
  const isPublic = async (): Promise<boolean> => {
    const { cluster } = JSON.parse(await askMoto(moto, 'eks', `/clusters/triton-${name}`)) as {
      cluster: { resourcesVpcConfig: { endpointPublicAccess: boolean } };
    };
    return cluster.resourcesVpcConfig.endpointPublicAccess;
  };
  const gate = await startConditionalProxy(scratch, Number(new URL(plane.access.server).port), isPublic);
  const moto = await testMoto(scratch, plane.access, `https://127.0.0.1:${gate}`);
  if ('publisherSubjects' in config) await createGithubProvider(moto);
  const tap = await startRecordingProxy(moto.endpoint);
  scratch.defer(() => tap.stop());
  const options = { plugins: await awsPlugins(), config, env: { ...moto.env, AWS_ENDPOINT_URL: tap.endpoint } };
  return { plane, moto, tap, stack: await TestStack.create(scratch, name, options) };
}

/**
 * The requests since the last call that a role of CI may not send. `new`: its keys were created a moment ago, so IAM does
 * not know their tags yet.
 */
export function refusedRequests({ tap, stack }: AwsStack, role: 'deploy' | 'preview', age: 'new' | 'old'): string[] {
  const at = { account: '123456789012', region: 'us-east-1', stack: stack.name, tagged: age === 'old' };
  const policy = readCiPolicy(role, at);
  const calls = tap.requests.splice(0).flatMap((request) => awsPermissionsFor(request, at));
  if (calls.length === 0) throw new Error('no request of the provider was recorded');
  const refused = calls.filter((call) => decide([policy], call) !== 'allowed');
  return [...new Set(refused.map(({ action, resource }) => `${action} ${resource}`))].sort();
}

/** Expects that the output of a preview or an update reports a policy pack without violations. */
export function expectPolicyPackPassed(printed: string): void {
  expect(printed).toMatch(
    /Policy Packs run:\s+Name\s+Version\s+triton-serving\S*\s+\d|Policies:\s+✅ triton-serving@v\d/,
  );
  expect(printed).not.toMatch(/\[(mandatory|advisory)\]|can't run policy/);
}

/** Expects that neither an update nor a refresh of a stack finds a change. */
export async function expectNoChanges(stack: TestStack): Promise<void> {
  await stack.up('--expect-no-changes');
  await stack.pulumi('refresh', '--stack', stack.name, '--yes', '--skip-preview', '--expect-no-changes');
  await stack.up('--expect-no-changes');
}

/** Types and names of the resources that an update or a destroy deleted, in that order, from Pulumi's output. */
export function deletions(printed: string): string[] {
  return [...printed.matchAll(/^ - +(\S+) (\S+) deleted(?: original)? /gm)].map(([, type, name]) => `${type} ${name}`);
}

/** Expects that the first lines which match each of `parts` are in this order. */
export function expectInOrder(lines: readonly string[], parts: readonly RegExp[]): void {
  const places = parts.map((part) => lines.findIndex((line) => part.test(line)));
  expect(places.map((place, index) => (place < 0 ? `no ${parts[index]}` : ''))).toEqual(parts.map(() => ''));
  expect(places).toEqual([...places].sort((a, b) => a - b));
}
