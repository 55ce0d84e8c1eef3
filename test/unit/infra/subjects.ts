/** Subjects of tokens that name one repository. IAM takes wildcards in them. */
export const NARROW_SUBJECTS = [
  'repo:acme/triton-serving:environment:prod',
  'repo:acme/triton-serving:*',
  'repo:acme/triton-serving:ref:refs/heads/*',
  'repo:acme@1234/triton-serving@5678:environment:prod',
  'repo:acme@1234/triton-serving@5678:*',
  'repo:acme@1234/triton-serving@5678',
  'project_path:acme/group/triton-serving:ref_type:branch:ref:main',
  'repo:acme/triton-serving',
  'system:serviceaccount:ci:publisher',
];

/** Subjects that repositories of others match too, or that name no repository. */
export const WIDE_SUBJECTS = [
  '*',
  'repo:*',
  'repo:acme*',
  'repo:acme/*',
  'repo:acme/*:environment:prod',
  'repo:acme/tri*',
  'repo:acme@1234/*',
  'repo:acme@1234/*:environment:prod',
  'repo:acme@1234/triton-serving@*:environment:prod',
  'repo:acme@*/triton-serving@5678:environment:prod',
  'repo:acme@1234/triton-serving@5678*',
  'repo:acme/triton-serving*',
  'repo:acme/?*',
  'repo:a*/triton-serving:environment:prod',
  'repo:*/triton-serving:environment:prod',
  'repo:a*:environment:prod',
  '*:environment:prod',
  'repo:acme',
  'repo:acme:environment:prod',
  'repo:acme/:environment:prod',
  '?epo:acme/triton-serving:environment:prod',
];
