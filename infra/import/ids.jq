# Input: the file that "pulumi preview --import-file" writes. Sets the ids of Kubernetes objects.
# $objects: the output of "kubectl get --output json". Names that Pulumi generated end in 8 hexadecimal digits.
[$objects[0].items[] | {kind, name: .metadata.name, id: ([.metadata.namespace, .metadata.name] | map(values) | join("/"))}]
  as $there
| .resources |= map(
    if .id == null or (.type | startswith("kubernetes:") | not) then .
    else
      (.logicalName // .name) as $name
      | [.type | split(":")[2] as $kind | $there[] | select(.kind == $kind)] as $alike
      | [$alike[] | select(.name | test("^\($name)(-[0-9a-f]{8})?$"))] as $named
      | (if ($named | length) > 0 then $named else $alike end) as $found
      | if ($found | length) == 1 then .id = $found[0].id else . end
    end)
