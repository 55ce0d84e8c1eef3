import type { TextCheck } from './fields';

/** Forms of texts that several settings share. Kubernetes and AWS refuse other texts only in "pulumi up". */

const DNS_LABEL = '[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?';

/** The parts of an object's name may be longer than those of a host name. */
const DNS_SUBDOMAIN = String.raw`[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*`;

const WORD = '[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?';

const QUALIFIED = String.raw`(?=[^/]{1,253}(/|$))(${DNS_SUBDOMAIN}/)?${WORD}`;

export const NAMESPACE = {
  pattern: new RegExp(`^${DNS_LABEL}$`),
  allowed: 'at most 63 lower-case letters, digits and hyphens',
} as const;

/** Names of objects of Kubernetes other than namespaces. */
export const OBJECT_NAME = {
  pattern: new RegExp(`^(?=.{1,253}$)${DNS_SUBDOMAIN}$`),
  allowed: 'the name of an object, "registry-key": lower-case letters, digits, hyphens and dots',
} as const;

/** Without addresses: a name whose last part is a number is one. */
export const HOST = {
  pattern: new RegExp(String.raw`^(?=.{1,253}$)(?!(.*\.)?\d+$)${DNS_LABEL}(\.${DNS_LABEL})*$`),
  allowed: 'a name such as triton.example.com',
} as const;

/** Names of labels, taints, annotations and classes of load balancers. */
export const QUALIFIED_NAME = {
  pattern: new RegExp(`^${QUALIFIED}$`),
  allowed: 'at most 63 letters, digits, "-", "_" and ".", after a domain and "/" if it has one: "example.com/team"',
} as const;

export const LABEL_VALUE = {
  pattern: new RegExp(`^(${WORD})?$`),
  allowed: 'at most 63 letters, digits, "-", "_" and ".", with a letter or digit at both ends',
} as const;

export const LABELS = { names: QUALIFIED_NAME, values: LABEL_VALUE } as const;

/** Labels of nodes, without those that Kubernetes, Karpenter, EKS or this package set. */
export const NODE_LABELS = {
  names: {
    pattern: new RegExp(
      String.raw`^(?!([^/]*\.)?(kubernetes\.io|k8s\.io|k8s\.aws|karpenter\.sh|eks\.amazonaws\.com)/|triton-serving/)${QUALIFIED}$`,
    ),
    allowed: `${QUALIFIED_NAME.allowed}, but no label of Kubernetes, Karpenter, EKS or this package`,
  },
  values: LABEL_VALUE,
} as const;

export const IDENTITY_PROVIDER = {
  pattern: /^arn:aws[a-z-]*:iam::\d{12}:oidc-provider\/.+$/,
  allowed: 'an ARN, "arn:aws:iam::123456789012:oidc-provider/oidc.eks.REGION.amazonaws.com/id/..."',
} as const;

export const KMS_KEY = {
  pattern: /^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key\/[\w-]+$/,
  // A policy that names an alias grants nothing: docs.aws.amazon.com/kms/latest/developerguide/alias-authorization.html (2026-11-27).
  allowed: 'the ARN of a KMS key, not of an alias',
} as const;

/** Whether a text is an address of HTTP without credentials and query, and without "$", which Kubernetes may replace. */
export const isHttpUrl = (text: string): boolean =>
  /^https?:\/\/[^\s/?#@$]+(\/[^\s?#$]*)?$/.test(text) && URL.canParse(text) && new URL(text).port !== '0';

export const checkUrl: TextCheck = (text) => (isHttpUrl(text) ? undefined : { reason: '' });
