#!/usr/bin/env bash
# Lists resources in AWS, from which ids.jq selects those of a stack, as [{"type", "name", "id"}, ...].
#   aws.sh PLAN    PLAN is the output of "pulumi preview --json" of the stack without a state
set -euo pipefail
plan=$1

# The resources of one type in the plan.
planned() { jq --compact-output --arg type "$1" '.steps[].newState | select(.type == $type)' "$plan"; }
if ! jq --exit-status 'any(.steps[]; .newState.type | startswith("aws:"))' "$plan" > /dev/null; then
  echo '[]'
  exit
fi
AWS_REGION=$(jq --raw-output '.config["aws:region"] // empty' "$plan")
export AWS_REGION AWS_DEFAULT_REGION=$AWS_REGION AWS_PAGER=

# row TYPE FILTER: FILTER converts the list on stdin to {name, id}.
row() { jq --arg type "$1" "$2 | {type: \$type} + ."; }

# ec2 TYPE COMMAND LIST ID: resources that have their name in the tag "Name".
ec2() {
  aws ec2 "$2" --output json | row "$1" ".$3[] | select(.State != \"deleted\")
    | {name: ((.Tags // [])[] | select(.Key == \"Name\") | .Value), id: .$4}"
}

{
  ec2 aws:ec2/vpc:Vpc describe-vpcs Vpcs VpcId
  ec2 aws:ec2/defaultSecurityGroup:DefaultSecurityGroup describe-security-groups SecurityGroups GroupId
  ec2 aws:ec2/internetGateway:InternetGateway describe-internet-gateways InternetGateways InternetGatewayId
  ec2 aws:ec2/subnet:Subnet describe-subnets Subnets SubnetId
  ec2 aws:ec2/routeTable:RouteTable describe-route-tables RouteTables RouteTableId
  ec2 aws:ec2/eip:Eip describe-addresses Addresses AllocationId
  ec2 aws:ec2/natGateway:NatGateway describe-nat-gateways NatGateways NatGatewayId
  ec2 aws:ec2/vpcEndpoint:VpcEndpoint describe-vpc-endpoints VpcEndpoints VpcEndpointId
  ec2 aws:ec2/flowLog:FlowLog describe-flow-logs FlowLogs FlowLogId
  aws ec2 describe-route-tables --output json | row aws:ec2/routeTableAssociation:RouteTableAssociation \
    '.RouteTables[].Associations[] | select(.SubnetId) | {name: .SubnetId, id: "\(.SubnetId)/\(.RouteTableId)"}'
  aws ec2 describe-launch-templates --output json | row aws:ec2/launchTemplate:LaunchTemplate \
    '.LaunchTemplates[] | {name: .LaunchTemplateName, id: .LaunchTemplateId}'
  aws s3api list-buckets --output json | row aws:s3/bucket:Bucket '.Buckets[] | {name: .Name, id: .Name}'
  aws logs describe-log-groups --output json | row aws:cloudwatch/logGroup:LogGroup \
    '.logGroups[] | {name: .logGroupName, id: .logGroupName}'

  aliases=$(aws kms list-aliases --output json)
  row aws:kms/alias:Alias '.Aliases[] | {name: (.AliasName | ltrimstr("alias/")), id: .AliasName}' <<< "$aliases"
  row aws:kms/key:Key '.Aliases[] | {name: (.AliasName | ltrimstr("alias/")), id: .TargetKeyId}' <<< "$aliases"

  roles=$(aws iam list-roles --output json)
  row aws:iam/role:Role '.Roles[] | {name: .RoleName, id: .RoleName, arn: .Arn}' <<< "$roles"
  names=$(planned aws:iam/role:Role | jq --raw-output --slurp \
    'map(.urn | split("::") | "triton-\(.[0] | split(":")[2])-\(.[3])") | join("|")')
  for role in $(jq --raw-output --arg names "$names" \
    '.Roles[].RoleName | select(test("^(\($names))-[0-9a-f]{7}$"))' <<< "$roles"); do
    aws iam list-role-policies --role-name "$role" --output json | row aws:iam/rolePolicy:RolePolicy \
      ".PolicyNames[] | {name: ., id: \"$role:\(.)\"}"
  done
  aws iam list-open-id-connect-providers --output json | row aws:iam/openIdConnectProvider:OpenIdConnectProvider \
    '.OpenIDConnectProviderList[].Arn | {name: "https://\(split("oidc-provider/")[1])", id: .}'

  cluster=$(planned aws:eks/cluster:Cluster | jq --raw-output '.inputs.name')
  if [ -n "$cluster" ]; then
    aws eks describe-cluster --name "$cluster" --output json | row aws:eks/cluster:Cluster \
      '.cluster | {name, id: .name, arn, issuer: .identity.oidc.issuer}'
    aws eks list-nodegroups --cluster-name "$cluster" --output json | row aws:eks/nodeGroup:NodeGroup \
      ".nodegroups[] | {name: ., id: \"$cluster:\(.)\"}"
  fi
} | jq --slurp .
