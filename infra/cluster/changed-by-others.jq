# Input: the output of "kubectl get --output json --show-managed-fields". Prints the objects that another program than
# Pulumi changed, with its name; not what controllers report, and not restarts by "kubectl rollout restart".
.items[] | . as {$kind, metadata: {$name}} | .metadata.managedFields[]
| select(.subresource == null and (.manager | test("^(pulumi|kubectl-rollout)") | not))
| select(.fieldsV1 | has("f:spec") or has("f:rules") or has("f:subjects"))
| "\($kind) \($name): \(.manager)"
