import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { GITHUB_ISSUER } from '../../infra/trust-subject';
import { isHealthy } from '../../src/local/process/health-check';
import { ManagedProcess } from '../../src/local/process/managed-process';
import { freePorts } from '../../src/local/process/ports';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/local/install/python';
import { ensureLockedPackages } from '../../tools/toolchain/locked-packages';
import type { Access } from './api-server';
import type { Scratch } from './temp-dir';

const START_TIMEOUT_MS = 60_000;
const STOP_GRACE_MS = 2000;

/** A mock of AWS in memory: moto, extended by the parts that an EKS stack needs and moto lacks. */
export interface Moto {
  endpoint: string;
  /** Makes AWS SDKs and Pulumi's provider use only the mock. */
  env: NodeJS.ProcessEnv;
}

/**
 * Starts the mock on loopback. Stops when the scratch folder is cleaned.
 * @param access the Kubernetes API of every EKS cluster; default: none
 * @param server the endpoint of every EKS cluster; default: that of `access`
 */
export async function testMoto(scratch: Scratch, access?: Access, server = access?.server): Promise<Moto> {
  const python = await ensurePython(new Progress(process.stderr, true).step(''));
  const packages = await ensureLockedPackages('moto', python);
  const [port] = (await freePorts(1)) as [number];
  const moto = new ManagedProcess({
    name: 'moto',
    command: python.python,
    args: ['-m', 'moto_server', '-H', '127.0.0.1', '-p', String(port)],
    env: {
      ...process.env,
      PYTHONPATH: `${packages}:${__dirname}`,
      ...(access === undefined
        ? {}
        : {
            KUBERNETES_ENDPOINT: server,
            KUBERNETES_CERTIFICATE: readFileSync(access.certificateFile).toString('base64'),
          }),
    },
    logFile: join(scratch.directory, `moto-${port}.log`),
    python: python.python,
  });
  const stop = (): Promise<void> => moto.stop(STOP_GRACE_MS);
  scratch.defer(stop);
  const endpoint = `http://127.0.0.1:${port}`;
  await moto.untilReady(() => isHealthy(`${endpoint}/moto-api/`), START_TIMEOUT_MS, stop);
  const programs = join(scratch.directory, 'aws-programs');
  if (access !== undefined) writeTokenProgram(programs, access);
  const env = {
    PATH: [programs, process.env['PATH']].join(delimiter),
    AWS_ENDPOINT_URL: endpoint,
    AWS_ACCESS_KEY_ID: 'mock',
    AWS_SECRET_ACCESS_KEY: 'mock',
    // Do not use the configuration of the developer.
    AWS_CONFIG_FILE: '/dev/null',
    AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
    AWS_EC2_METADATA_DISABLED: 'true',
  };
  return { endpoint, env };
}

/** Writes a replacement of `aws eks get-token`, which kubeconfigs of EKS run. It forwards other commands to the AWS CLI. */
function writeTokenProgram(directory: string, access: Access): void {
  const credential = {
    apiVersion: 'client.authentication.k8s.io/v1beta1',
    kind: 'ExecCredential',
    status: { token: access.token() },
  };
  mkdirSync(directory, { recursive: true });
  const script = [
    '#!/bin/sh',
    `case "$*" in "eks get-token "*) echo '${JSON.stringify(credential)}'; exit ;; esac`,
    `PATH='${process.env['PATH'] ?? ''}' exec aws "$@"`,
    '',
  ];
  writeFileSync(join(directory, 'aws'), script.join('\n'), { mode: 0o755 });
}

/** Requests of the Query API for what costs money, and the element of an answer with its name. */
const BILLED: readonly (readonly [service: string, version: string, request: string, element: string])[] = [
  ['ec2', '2016-11-15', 'DescribeNatGateways&Filter.1.Name=state&Filter.1.Value.1=available', 'natGatewayId'],
  ['ec2', '2016-11-15', 'DescribeAddresses', 'allocationId'],
  ['ec2', '2016-11-15', 'DescribeInstances&Filter.1.Name=instance-state-name&Filter.1.Value.1=running', 'instanceId'],
  ['ec2', '2016-11-15', 'DescribeVolumes', 'volumeId'],
  // AWS and moto list an endpoint as deleted for some time.
  [
    'ec2',
    '2016-11-15',
    'DescribeVpcEndpoints&Filter.1.Name=vpc-endpoint-state&Filter.1.Value.1=available',
    'vpcEndpointId',
  ],
  ['ec2', '2016-11-15', 'DescribeVpcs&Filter.1.Name=is-default&Filter.1.Value.1=false', 'vpcId'],
  ['elasticloadbalancing', '2015-12-01', 'DescribeLoadBalancers', 'LoadBalancerName'],
  ['iam', '2010-05-08', 'ListRoles', 'RoleName'],
  ['iam', '2010-05-08', 'ListOpenIDConnectProviders', 'Arn'],
];

/** Names of what remains in the account and costs money, and of roles, identity providers and networks. */
export async function leftovers(moto: Moto): Promise<string[]> {
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  const json = async <T>(service: string, target: string, body: object = {}): Promise<T> => {
    const headers = { 'x-amz-target': target, 'content-type': 'application/x-amz-json-1.1' };
    return JSON.parse(await askMoto(moto, service, '/', headers, JSON.stringify(body))) as T;
  };
  const { clusters } = JSON.parse(await askMoto(moto, 'eks', '/clusters')) as { clusters: string[] };
  const { logGroups } = await json<{ logGroups: { logGroupName: string }[] }>(
    'logs',
    'Logs_20140328.DescribeLogGroups',
  );
  const { Keys } = await json<{ Keys: { KeyId: string }[] }>('kms', 'TrentService.ListKeys');
  const keys = await Promise.all(
    Keys.map(({ KeyId }) =>
      json<{ KeyMetadata: { KeyId: string; KeyState: string } }>('kms', 'TrentService.DescribeKey', { KeyId }),
    ),
  );
  const found = [
    ...clusters,
    ...logGroups.map(({ logGroupName }) => logGroupName),
    ...namesIn(await askMoto(moto, 's3', '/'), 'Name'),
    // A key that waits for its deletion costs nothing.
    ...keys.flatMap(({ KeyMetadata }) => (KeyMetadata.KeyState === 'PendingDeletion' ? [] : [KeyMetadata.KeyId])),
  ];
  for (const [service, version, request, element] of BILLED) {
    found.push(...namesIn(await askMoto(moto, service, '/', form, `Action=${request}&Version=${version}`), element));
  }
  return found;
}

function namesIn(xml: string, element: string): string[] {
  return [...xml.matchAll(new RegExp(`<${element}>([^<]*)</${element}>`, 'g'))].map(([, name]) => name ?? '');
}

/** Sends one request to a service of the mock, by default a POST if there is a body. */
export async function askMoto(
  moto: Moto,
  service: string,
  path: string,
  headers = {},
  body?: string,
  method = 'POST',
): Promise<string> {
  const scope = `Credential=mock/20260101/us-east-1/${service}/aws4_request`;
  const response = await fetch(`${moto.endpoint}${path}`, {
    // The scope of the signature selects the service. The signature is not verified.
    headers: { authorization: `AWS4-HMAC-SHA256 ${scope}, SignedHeaders=host, Signature=0`, ...headers },
    ...(body === undefined ? {} : { method, body }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${service} of the mock answers ${response.status}: ${text}`);
  return text;
}

/** Creates the IAM provider of GitHub, as infra/bootstrap does. */
export function createGithubProvider(moto: Moto): Promise<string> {
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  const request = `Action=CreateOpenIDConnectProvider&Version=2010-05-08&Url=${encodeURIComponent(GITHUB_ISSUER)}`;
  return askMoto(moto, 'iam', '/', form, `${request}&ClientIDList.member.1=sts.amazonaws.com`);
}
