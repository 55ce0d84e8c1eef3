#!/usr/bin/env bash
# Prints what someone added in AWS beside the resources of a stack, one line each: policies of its roles that the program
# neither attached nor wrote, access entries of its cluster that it did not create, and access policies of entries that it
# did. Pulumi finds none of these.
#   added-by-others.sh STACK    without the lines in ACCEPTED_ADDITIONS
set -euo pipefail

state=$(pulumi stack export --stack "$1" |
  jq '[.deployment.resources[]? | select(.delete != true and .pendingReplacement != true)]')
provider=$(jq '[.[] | select(.type == "pulumi:providers:aws") | .inputs][0] // {}' <<< "$state")
AWS_REGION=$(jq --raw-output '.region // empty' <<< "$provider")
export AWS_REGION AWS_DEFAULT_REGION=$AWS_REGION AWS_PAGER=
AWS_PROFILE=$(jq --raw-output '.profile // env.AWS_PROFILE // empty' <<< "$provider")
if [ -n "$AWS_PROFILE" ]; then export AWS_PROFILE; else unset AWS_PROFILE; fi

# outputs TYPE FILTER: FILTER of the outputs of the stack's resources of a type.
outputs() { jq --raw-output --arg type "$1" ".[] | select(.type == \$type) | .outputs | $2" <<< "$state"; }
files=$(mktemp -d)
trap 'rm -r "$files"' EXIT

{
  outputs aws:iam/rolePolicyAttachment:RolePolicyAttachment '"role \(.role): policy \(.policyArn)"'
  outputs aws:iam/rolePolicy:RolePolicy '"role \(.role): policy \(.name)"'
  outputs aws:eks/accessEntry:AccessEntry '"cluster \(.clusterName): access entry \(.principalArn)"'
  outputs aws:eks/accessPolicyAssociation:AccessPolicyAssociation \
    '"cluster \(.clusterName): access entry \(.principalArn) with \(.policyArn)"'
  # EKS itself admits the nodes of managed groups and of its own pools.
  outputs aws:eks/nodeGroup:NodeGroup '"cluster \(.clusterName): access entry \(.nodeRoleArn)"'
  outputs aws:eks/cluster:Cluster '"cluster \(.name): access entry \(.computeConfig.nodeRoleArn // empty)"'
} > "$files/ours"

for role in $(outputs aws:iam/role:Role .name); do
  aws iam list-attached-role-policies --role-name "$role" --output json |
    jq --raw-output --arg role "$role" '.AttachedPolicies[] | "role \($role): policy \(.PolicyArn)"'
  aws iam list-role-policies --role-name "$role" --output json |
    jq --raw-output --arg role "$role" '.PolicyNames[] | "role \($role): policy \(.)"'
done > "$files/there"

for cluster in $(outputs aws:eks/cluster:Cluster .name); do
  # Service-linked roles are AWS's own.
  aws eks list-access-entries --cluster-name "$cluster" --output json |
    jq --raw-output --arg cluster "$cluster" '.accessEntries[] | select(contains(":role/aws-service-role/") | not)
      | "cluster \($cluster): access entry \(.)"'
  for principal in $(outputs aws:eks/accessEntry:AccessEntry .principalArn); do
    aws eks list-associated-access-policies --cluster-name "$cluster" --principal-arn "$principal" --output json |
      jq --raw-output '.clusterName as $cluster | .principalArn as $principal | .associatedAccessPolicies[]
        | "cluster \($cluster): access entry \($principal) with \(.policyArn)"'
  done
done >> "$files/there"

tr -d '\r' <<< "${ACCEPTED_ADDITIONS:-}" > "$files/accepted"
sort -u "$files/ours" "$files/accepted" > "$files/known"
sort -u "$files/there" | comm -13 "$files/known" -
