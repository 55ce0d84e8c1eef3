import { error, ok, warning, type Check } from './check';

/** The roles of this account that the stack file names. EKS and S3 refuse an ARN of a role that does not exist. */
export const rolesCheck: Check = {
  name: 'roles',
  run: async ({ account, settings: { cluster, modelRepository } }) => {
    const named = [
      ...(cluster.kind === 'create'
        ? [
            ...cluster.admins.map((arn) => ({ setting: 'clusterAdmins', arn })),
            ...cluster.viewers.map((arn) => ({ setting: 'clusterViewers', arn })),
          ]
        : []),
      ...(modelRepository.kind === 'create'
        ? modelRepository.readers.map((arn) => ({ setting: 'bucketReaders', arn }))
        : []),
    ];
    const { account: id } = await account.identity();
    const roles = named.filter(({ arn }) => arn.includes(`:iam::${id}:role/`));
    if (roles.length === 0) return [ok('clusterAdmins, clusterViewers and bucketReaders name no role of this account')];
    const existing = await Promise.all(roles.map(({ arn }) => account.roleArn(arn.split('/').at(-1) ?? '')));
    const wrong = roles.flatMap(({ setting, arn }, i) => {
      const found = existing[i];
      if (found === arn) return [];
      return found === undefined
        ? [error(`${setting} has ${arn}, which does not exist`, `correct ${setting}, or create the role`)]
        : [error(`${setting} has ${arn}, but the role is ${found}`, `correct ${setting}`)];
    });
    return wrong.length > 0 ? wrong : [ok(`found: ${roles.map(({ arn }) => arn).join(', ')}`)];
  },
};

const SPOT_ROLE = 'AWSServiceRoleForEC2Spot';

/**
 * The role with which EC2 starts spot instances. Auto Mode and Auto Scaling may create it; the usual policy of a
 * Karpenter that others installed may not: https://karpenter.sh/docs/troubleshooting (2026-11-25), "Missing Service
 * Linked Role".
 */
export const spotRoleCheck: Check = {
  name: 'spot role',
  run: async ({ account, settings: { gpuNodePools } }) => {
    const pools = gpuNodePools.filter(
      ({ mechanism, capacityTypes }) => mechanism === 'karpenter' && capacityTypes.includes('spot'),
    );
    if (pools.length === 0) return [ok('none needed: no pool of another Karpenter uses spot instances')];
    if ((await account.roleArn(SPOT_ROLE)) !== undefined) return [ok(`${SPOT_ROLE} exists`)];
    return [
      warning(
        `${SPOT_ROLE} does not exist, so Karpenter may fail to start spot instances of ${pools.map(({ name }) => name).join(', ')}`,
        'aws iam create-service-linked-role --aws-service-name spot.amazonaws.com',
      ),
    ];
  },
};
