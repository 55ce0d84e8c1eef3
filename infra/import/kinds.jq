# Input: the file that "pulumi preview --import-file" writes. Prints the kinds of its Kubernetes objects for "kubectl
# get".
[.resources[].type | select(startswith("kubernetes:") and (endswith("Patch") | not)) | split(":")[1:]
  | (.[0] | split("/")) as [$group, $version]
  | if $group == "core" then .[1] else "\(.[1]).\($version).\($group)" end]
| unique | join(",")
