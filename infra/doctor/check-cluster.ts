import { CI_ROLES, ciRoleName, type CiRole } from '../iam/ci-roles';
import type { Settings } from '../settings';
import type { ClusterSettings } from '../settings/types';
import type { Identity } from './account';
import { error, isOwn, ok, warning, type Check, type Finding } from './check';

type CreatedCluster = Extract<ClusterSettings, { kind: 'create' }>;

const NONE = [ok('none needed: the stack uses an existing cluster')];

/** Whether a cluster exists that has the name of the stack's and is not the stack's. */
export const clusterNameCheck: Check = {
  name: 'cluster name',
  run: async ({ account, settings }) => {
    const { cluster } = settings;
    if (cluster.kind === 'existing') return NONE;
    const existing = await account.cluster(cluster.name);
    if (existing === undefined) return [ok(`${cluster.name} is free`)];
    if (isOwn(existing.tags, settings)) return [ok(`${cluster.name} exists, with the tags of this stack`)];
    const fix = 'if another stack created it, set clusterName to another name';
    const isLike = Object.entries(settings.tags).some(([key, value]) => existing.tags[key] === value);
    return isLike || Object.keys(settings.tags).length === 0
      ? [
          warning(
            `${cluster.name} exists, which is correct only if this stack created it: the doctor recognizes it only by all tags of aws:defaultTags`,
            fix,
          ),
        ]
      : [error(`${cluster.name} exists and has none of the tags of this stack (aws:defaultTags)`, fix)];
  },
};

/**
 * The log group of the control plane. EKS creates it again if the cluster still logs after "pulumi destroy" deleted it:
 * https://github.com/terraform-aws-modules/terraform-aws-eks/issues/2446 (2026-11-25). `pulumi up` then fails.
 */
export const logGroupCheck: Check = {
  name: 'log group',
  run: async ({ account, settings: { cluster, region } }) => {
    if (cluster.kind === 'existing') return NONE;
    const name = `/aws/eks/${cluster.name}/cluster`;
    const [exists, existing] = await Promise.all([account.hasLogGroup(name), account.cluster(cluster.name)]);
    if (!exists) return [ok(`${name} is free`)];
    if (existing !== undefined) return [ok(`${name} exists, as does the cluster`)];
    return [
      error(
        `${name} exists, but the cluster does not, so "pulumi up" cannot create the log group`,
        `aws logs delete-log-group --log-group-name ${name} --region ${region}`,
      ),
    ];
  },
};

/** Whether the caller, which "pulumi up" needs, and the listed roles may use the Kubernetes API of the stack's cluster. */
export const clusterAccessCheck: Check = {
  name: 'cluster access',
  run: async (context) => {
    const { account, settings } = context;
    const { cluster } = settings;
    if (cluster.kind === 'existing') return [ok('not checked: the kubeconfig decides about an existing cluster')];
    const existing = await account.cluster(cluster.name);
    if (existing === undefined) return [ok('no cluster yet')];
    if (!isOwn(existing.tags, settings)) return [ok('not checked: the cluster is not known to be of this stack')];
    if (!existing.hasAccessEntries) return [ok('not checked: the cluster uses no access entries')];
    const [identity, entries] = await Promise.all([account.identity(), account.accessEntries(cluster.name)]);
    return [judgeCaller(identity, entries, cluster.name, settings.region), ...judgeListed(cluster, entries, settings)];
  },
};

function judgeCaller(identity: Identity, entries: readonly string[], name: string, region: string): Finding {
  const entry = entries.find((arn) => isPrincipal(arn, identity));
  if (entry !== undefined) return ok(`${entry} has an access entry`);
  return error(
    `${identity.arn} has no access entry of ${name}, so "pulumi up" cannot use the Kubernetes API`,
    `add the role to clusterAdmins and let an administrator run "pulumi up"; "aws eks list-access-entries --cluster-name ${name} --region ${region}" lists the administrators`,
  );
}

/** Warnings, because the next "pulumi up" creates the entry of a role that was just added to the stack file. */
function judgeListed(
  { name, admins, viewers }: CreatedCluster,
  entries: readonly string[],
  { stack }: Settings,
): Finding[] {
  const listed = [
    ...admins.map((arn) => ({ setting: 'clusterAdmins', arn })),
    ...viewers.map((arn) => ({ setting: 'clusterViewers', arn })),
  ];
  return listed.map(({ setting, arn }) =>
    entries.includes(arn)
      ? ok(`${arn} has an access entry`)
      : warning(
          `${setting} has ${arn}, which has no access entry of ${name}, so the Kubernetes API answers it with 401`,
          `an administrator of the cluster: pulumi up --stack ${stack} --refresh`,
        ),
  );
}

/** In which list of the stack file each role of CI belongs (docs/ci.md). */
const CI_SETTINGS: Readonly<Record<CiRole, 'clusterAdmins' | 'clusterViewers'>> = {
  deploy: 'clusterAdmins',
  drift: 'clusterViewers',
  preview: 'clusterViewers',
};

/** Whether the roles of CI that the account has may use the Kubernetes API of the stack's cluster. */
export const ciRolesCheck: Check = {
  name: 'CI roles',
  run: async ({ account, settings }) => {
    const { cluster, stack } = settings;
    if (cluster.kind === 'existing') return [ok('not checked: its administrator decides about an existing cluster')];
    const found = await Promise.all(
      CI_ROLES.map(async (role) => ({ role, arn: await account.roleArn(ciRoleName(stack, role)) })),
    );
    const roles = found.flatMap(({ role, arn }) => (arn === undefined ? [] : [{ role, arn }]));
    if (roles.length === 0) return [ok(`the account has no role ${ciRoleName(stack, 'deploy')}, -drift or -preview`)];
    const existing = await account.cluster(cluster.name);
    const isUp = existing !== undefined && isOwn(existing.tags, settings);
    if (isUp && !existing.hasAccessEntries) return [ok('not checked: the cluster uses no access entries')];
    const entries = isUp ? await account.accessEntries(cluster.name) : undefined;
    return judgeCiRoles(roles, { cluster, stack, entries, identity: await account.identity() });
  },
};

/**
 * @param roles that the account has
 * @param entries ARNs of the principals with an access entry; undefined if the cluster does not exist
 */
export function judgeCiRoles(
  roles: readonly { role: CiRole; arn: string }[],
  {
    cluster: { admins, viewers },
    stack,
    entries,
    identity,
  }: {
    cluster: Pick<CreatedCluster, 'admins' | 'viewers'>;
    stack: string;
    entries: readonly string[] | undefined;
    identity: Identity;
  },
): Finding[] {
  const lengths = { clusterAdmins: admins.length, clusterViewers: viewers.length };
  return roles.map(({ role, arn }) => {
    if ([...admins, ...viewers].includes(arn)) return ok(`the stack file lists ${arn}`);
    if (entries?.includes(arn) === true) return ok(`${arn} has an access entry`);
    // The creator of a cluster must not be listed. If clusterAdmins has others, they are the people of a cluster that CI creates.
    if (role === 'deploy' && entries === undefined && (admins.length > 0 || isPrincipal(arn, identity))) {
      return ok(`${arn} is to create the cluster, which gives it an access entry`);
    }
    const setting = CI_SETTINGS[role];
    return warning(
      `the account has ${arn}, but neither clusterAdmins nor clusterViewers lists it, so the Kubernetes API answers it with 401`,
      `${role === 'deploy' && entries === undefined ? 'unless this role creates the cluster: ' : ''}pulumi config set --stack ${stack} --path '${setting}[${lengths[setting]++}]' ${arn}`,
    );
  });
}

/**
 * Whether an access entry is for the caller. The ARN of a role's session contains the role's name, but not its path:
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html (2026-11-25)
 */
export function isPrincipal(entry: string, { arn, account }: Identity): boolean {
  const [, role] = /:assumed-role\/([^/]+)\//.exec(arn) ?? [];
  if (role === undefined) return entry === arn;
  return entry.includes(`:iam::${account}:role/`) && entry.split('/').at(-1) === role;
}
