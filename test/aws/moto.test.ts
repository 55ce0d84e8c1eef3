import { askMoto, leftovers, testMoto, type Moto } from '../support/moto';
import { Scratch } from '../support/temp-dir';

const INSTALL_MS = 10 * 60_000;

/** Each creates something that costs money, in the Query API. */
const BILLED: readonly (readonly [service: string, request: string, element: string])[] = [
  ['ec2', 'CreateVpc&CidrBlock=10.0.0.0/16', 'vpcId'],
  ['ec2', 'CreateSubnet&CidrBlock=10.0.0.0/20&VpcId={vpcId}', 'subnetId'],
  ['ec2', 'AllocateAddress&Domain=vpc', 'allocationId'],
  ['ec2', 'CreateNatGateway&SubnetId={subnetId}&AllocationId={allocationId}', 'natGatewayId'],
  ['ec2', 'CreateVpcEndpoint&VpcId={vpcId}&ServiceName=com.amazonaws.us-east-1.s3', 'vpcEndpointId'],
  ['ec2', 'CreateVolume&AvailabilityZone=us-east-1a&Size=1', 'volumeId'],
  ['ec2', 'RunInstances&ImageId=ami-12c6146b&MinCount=1&MaxCount=1&SubnetId={subnetId}', 'instanceId'],
];

/** What the mock of AWS adds to moto, by requests as the provider makes them. */
describe('the mock of EKS', () => {
  const scratch = new Scratch();
  let moto: Moto;
  beforeAll(async () => {
    moto = await testMoto(scratch);
  }, INSTALL_MS);
  afterAll(() => scratch.clean());

  const ask = async (method: string, path: string, body?: object): Promise<{ status: number; answer: unknown }> => {
    const response = await fetch(`${moto.endpoint}${path}`, {
      method,
      headers: {
        'content-type': 'application/json',
        // The scope of the signature selects the service. The signature is not verified.
        authorization:
          'AWS4-HMAC-SHA256 Credential=mock/20260101/us-east-1/eks/aws4_request, SignedHeaders=host, Signature=0',
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, answer: await response.json() };
  };
  const cluster = (name: string, more: object): object => ({
    name,
    roleArn: 'arn:aws:iam::123456789012:role/cluster',
    resourcesVpcConfig: { subnetIds: [] },
    ...more,
  });
  const AUTO_MODE = {
    bootstrapSelfManagedAddons: false,
    computeConfig: { enabled: true, nodePools: ['system'], nodeRoleArn: 'arn:aws:iam::123456789012:role/nodes' },
    storageConfig: { blockStorage: { enabled: true } },
    kubernetesNetworkConfig: { elasticLoadBalancing: { enabled: true } },
    accessConfig: { authenticationMode: 'API' },
  };

  test('creates nothing twice if an SDK lost the answer and sends its request again', async () => {
    const send = (invocation: string, action: string): Promise<string> => {
      const headers = { 'content-type': 'application/x-www-form-urlencoded', 'amz-sdk-invocation-id': invocation };
      return askMoto(moto, 'iam', '/', headers, `Action=${action}&Version=2010-05-08&RoleName=repeated`);
    };
    const create = (id: string): Promise<string> => send(id, 'CreateRole&AssumeRolePolicyDocument=%7B%7D');
    const first = await create('one');
    expect(first).toContain('<RoleName>repeated</RoleName>');
    expect(await create('one')).toBe(first);
    await expect(create('two')).rejects.toThrow('EntityAlreadyExists');
    await send('three', 'DeleteRole');
    // A refused request may succeed later.
    expect(await create('two')).toContain('<RoleName>repeated</RoleName>');
    await send('four', 'DeleteRole');
  });

  test('keeps the settings of Auto Mode', async () => {
    expect(await leftovers(moto)).toEqual([]);
    expect(await ask('POST', '/clusters', cluster('auto', AUTO_MODE))).toMatchObject({ status: 200 });
    expect(await ask('GET', '/clusters/auto')).toMatchObject({
      answer: {
        cluster: {
          computeConfig: AUTO_MODE.computeConfig,
          storageConfig: AUTO_MODE.storageConfig,
          kubernetesNetworkConfig: AUTO_MODE.kubernetesNetworkConfig,
          accessConfig: AUTO_MODE.accessConfig,
        },
      },
    });
    expect(await leftovers(moto)).toEqual(['auto']);
  });

  test.each([
    ['a part of it alone', { storageConfig: undefined }],
    ['add-ons of the old kind', { bootstrapSelfManagedAddons: true }],
    ['node pools without a role', { computeConfig: { enabled: true, nodePools: ['system'] } }],
  ])('refuses %s, as AWS does', async (_, change) => {
    const { status } = await ask('POST', '/clusters', cluster('half', { ...AUTO_MODE, ...change }));
    expect(status).toBe(400);
  });

  test('returns add-ons, and access entries if the cluster uses them', async () => {
    const entry = { principalArn: 'arn:aws:iam::123456789012:role/admins' };
    await ask('POST', '/clusters', cluster('plain', {}));
    expect((await ask('POST', '/clusters/plain/access-entries', entry)).status).toBe(400);
    expect((await ask('POST', '/clusters/auto/access-entries', entry)).status).toBe(200);
    expect(await ask('GET', '/clusters/auto/access-entries')).toMatchObject({
      answer: { accessEntries: [entry.principalArn] },
    });
    expect((await ask('POST', '/clusters/auto/addons', { addonName: 'metrics-server' })).status).toBe(200);
    expect((await ask('POST', '/clusters/auto/addons', { addonName: 'no-such' })).status).toBe(400);
  });

  test('creates the desired number of nodes within the bounds of a node group', async () => {
    await ask('POST', '/clusters', cluster('grouped', {}));
    const group = (scalingConfig: object): object => ({
      nodegroupName: 'fixed',
      subnets: [],
      nodeRole: 'arn:aws:iam::123456789012:role/nodes',
      scalingConfig,
    });
    const groups = '/clusters/grouped/node-groups';
    expect((await ask('POST', groups, group({ minSize: 1, maxSize: 2, desiredSize: 0 }))).status).toBe(400);
    expect((await ask('POST', groups, group({ minSize: 1, maxSize: 2, desiredSize: 1 }))).status).toBe(200);
    const resize = (scalingConfig: object) => ask('POST', `${groups}/fixed/update-config`, { scalingConfig });
    expect(await resize({ minSize: 2 })).toMatchObject({
      status: 400,
      answer: { message: "Minimum capacity 2 can't be greater than desired size 1" },
    });
    expect((await resize({ minSize: 2, desiredSize: 2 })).status).toBe(200);
  });
});

test(
  'leftovers names what costs money',
  async () => {
    const scratch = new Scratch();
    try {
      const moto = await testMoto(scratch);
      const made: Record<string, string> = {};
      const form = { 'content-type': 'application/x-www-form-urlencoded' };
      for (const [service, request, element] of BILLED) {
        const action = request.replace(/\{(\w+)\}/g, (_, name: string) => made[name] ?? '');
        const answer = await askMoto(moto, service, '/', form, `Action=${action}&Version=2016-11-15`);
        made[element] = new RegExp(`<${element}>([^<]*)<`).exec(answer)?.[1] ?? '';
      }
      const target = { 'x-amz-target': 'TrentService.CreateKey', 'content-type': 'application/x-amz-json-1.1' };
      const { KeyMetadata } = JSON.parse(await askMoto(moto, 'kms', '/', target, '{}')) as {
        KeyMetadata: { KeyId: string };
      };
      const { subnetId, ...costly } = made;
      expect(subnetId).toMatch(/^subnet-/);
      expect(await leftovers(moto)).toEqual(expect.arrayContaining([...Object.values(costly), KeyMetadata.KeyId]));
    } finally {
      await scratch.clean();
    }
  },
  INSTALL_MS,
);
