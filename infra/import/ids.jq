# Input: the file that "pulumi preview --import-file" writes. Sets the ids of the resources that exist.
# $plan: the output of the same preview with --json; $objects: the output of "kubectl get --output json"; $aws: the
# output of aws.sh.

# Names that Pulumi generated end in 7 hexadecimal digits (AWS) or 8 (Kubernetes).
def named($names): .name as $name | any($names[]; . == $name or (. as $start | $name | test("^\($start)-[0-9a-f]{7,8}$")));
def joined($separator): if all(. != null) then join($separator) else null end;
# In a preview Pulumi writes this value for a property whose value is not known yet.
def is_unknown: . == "04da6b54-80e4-46f7-96ec-b56ff0331ba9";
def known($start): if type == "string" and startswith($start) then . else null end;

($plan[0].steps | map({key: (.urn | split("::") | "\(.[2] | split("$")[-1]) \(.[3])"), value: (.newState.inputs // {})})
  | from_entries) as $inputs
| ($aws[0] + [$objects[0].items[]
    | (if .apiVersion == "v1" then "core/v1" else .apiVersion end) as $version
    | {type: "kubernetes:\($version):\(.kind)"}
      + (.metadata | {name, namespace, id: ([.namespace, .name] | map(values) | join("/"))})])
  as $existing
| ([$existing[] | select(.type == "aws:eks/cluster:Cluster")][0]) as $cluster
| ($plan[0].steps[0].urn | split(":")[2]) as $stack
| .resources as $resources
| [$inputs | to_entries[] | select(.key | startswith("kubernetes:core/v1:Namespace ")) | .value.metadata.name] as $namespaces

| def found($type; condition):
    [$existing[] | select(.type == $type) | select(condition)] | if length == 1 then .[0] else null end;

  # The id of a resource as "pulumi import" requires it; null if no resource or several resources match.
  def id:
    . as {$type, $parent}
    | (.logicalName // .name) as $name
    | ($inputs["\($type) \($name)"] // {}) as $in
    | (first($resources[] | select(.name == $parent) | id) // null) as $parentId
    | ($in.principalArn | known("arn:") // found("aws:iam/role:Role"; named(["triton-\($stack)-\($name)"])).arn) as $principal
    | {
        "aws:ec2/route:Route": [$parentId, $in.destinationCidrBlock] | joined("_"),
        "aws:ec2/routeTableAssociation:RouteTableAssociation": found($type; .name == $parentId).id,
        "aws:eks/accessEntry:AccessEntry": [$cluster.name, $principal] | joined(":"),
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation":
          [$cluster.name, ($parentId | ltrimstr("\($cluster.name):")), $in.policyArn] | joined("#"),
        "aws:eks/addon:Addon": [$cluster.name, $in.addonName] | joined(":"),
        "aws:iam/openIdConnectProvider:OpenIdConnectProvider":
          found($type; .name == ($in.url | known("https://") // $cluster.issuer)).id,
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment": [$parentId, $in.policyArn] | joined("/")
      } as $composed
    | if .component or ($type | startswith("pulumi:")) then null
      elif $type | in($composed) then $composed[$type]
      # Settings of a bucket have its name as their id.
      elif ($type | startswith("aws:s3/bucket")) and $type != "aws:s3/bucket:Bucket" then $parentId
      # "pulumi:autonaming" in Pulumi.yaml puts the stack before the names that Pulumi generates.
      else found($type; named([$name, "triton-\($stack)-\($name)", $in.name, $in.tags.Name?, $in.metadata.name?] | map(strings))
        and (.namespace == $in.metadata.namespace? or
          ($in.metadata.namespace? | is_unknown) and (.namespace | IN($namespaces[])))).id
      end;

  # A patch is applied again by "pulumi up". It owns no object that could be imported.
  .resources |= map(
    select(.type | endswith("Patch") | not)
    | id as $id
    | if $id != null then .id = $id else . end
    # With another identifier, Pulumi would replace all Kubernetes objects.
    | if .type == "pulumi:providers:kubernetes" and $cluster.arn != null
      then .inputs.clusterIdentifier = $cluster.arn
      else . end)
