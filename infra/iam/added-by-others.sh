#!/usr/bin/env bash
# Prints what someone added in AWS beside the resources of a stack, one line each: policies of its roles that the program
# neither attached nor wrote, and access entries of its cluster that it did not create. Pulumi finds neither.
#   added-by-others.sh STACK    without the lines in ACCEPTED_ADDITIONS
set -euo pipefail
shopt -s inherit_errexit

state=$(pulumi stack export --stack "$1")
AWS_REGION=$(jq --raw-output '[.deployment.resources[]? | select(.type == "pulumi:providers:aws") | .inputs.region][0] // empty' <<< "$state")
export AWS_REGION AWS_DEFAULT_REGION=$AWS_REGION AWS_PAGER=
ours=$(jq --raw-output '.deployment.resources[]? | .outputs as $out |
  if .type == "aws:iam/rolePolicyAttachment:RolePolicyAttachment" then "role \($out.role): policy \($out.policyArn)"
  elif .type == "aws:iam/rolePolicy:RolePolicy" then "role \($out.role): policy \($out.name)"
  elif .type == "aws:eks/accessEntry:AccessEntry" then "cluster \($out.clusterName): access entry \($out.principalArn)"
  else empty end' <<< "$state")

# outputs TYPE NAME: an output of the stack's resources of a type.
outputs() {
  jq --raw-output --arg type "$1" --arg name "$2" '.deployment.resources[]? | select(.type == $type) | .outputs[$name]' <<< "$state"
}
roles=$(outputs aws:iam/role:Role name)
clusters=$(outputs aws:eks/cluster:Cluster name)

list() {
  for role in $roles; do
    aws iam list-attached-role-policies --role-name "$role" --output json |
      jq --raw-output --arg role "$role" '.AttachedPolicies[] | "role \($role): policy \(.PolicyArn)"'
    aws iam list-role-policies --role-name "$role" --output json |
      jq --raw-output --arg role "$role" '.PolicyNames[] | "role \($role): policy \(.)"'
  done
  # EKS itself admits the nodes of managed groups, which have a role of the stack, and service-linked roles.
  for cluster in $clusters; do
    aws eks list-access-entries --cluster-name "$cluster" --output json |
      jq --raw-output --arg cluster "$cluster" --arg roles "$roles" '.accessEntries[]
        | select((contains(":role/aws-service-role/") or IN(split("/")[-1]; $roles | split("\n")[])) | not)
        | "cluster \($cluster): access entry \(.)"'
  done
}
found=$(list)

accepted=$(tr -d '\r' <<< "${ACCEPTED_ADDITIONS:-}")
comm -13 <(sort <<< "$ours") <(sort <<< "$found") | { grep -vxF -e "$accepted" || test $? = 1; }
