# Of the file that "pulumi preview --import-file" writes: the kinds of Kubernetes objects, as "kubectl get" takes them.
[.resources[].type | select(startswith("kubernetes:")) | split(":")[1:]
  | (.[0] | split("/")) as [$group, $version]
  | if $group == "core" then .[1] else "\(.[1]).\($version).\($group)" end]
| unique | join(",")
