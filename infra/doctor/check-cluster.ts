import type { Identity } from './account';
import { error, isOwn, ok, warning, type Check, type Context } from './check';

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

/** Whether the caller may use the Kubernetes API of the stack's cluster, which "pulumi up" needs. */
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
    return judgeAccess(context, cluster.name);
  },
};

async function judgeAccess({ account, settings: { region } }: Context, name: string) {
  const [identity, entries] = await Promise.all([account.identity(), account.accessEntries(name)]);
  const entry = entries.find((arn) => isPrincipal(arn, identity));
  if (entry !== undefined) return [ok(`${entry} has an access entry`)];
  return [
    error(
      `${identity.arn} has no access entry of ${name}, so "pulumi up" cannot use the Kubernetes API`,
      `add the role to clusterAdmins and let an administrator run "pulumi up"; "aws eks list-access-entries --cluster-name ${name} --region ${region}" lists the administrators`,
    ),
  ];
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
