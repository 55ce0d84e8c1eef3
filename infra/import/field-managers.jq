# Input: a stack that was exported after an import. Restores the field manager names with which Pulumi applied the
# objects before. Under another name Kubernetes rejects Pulumi's changes as conflicts, and does not delete fields that
# Pulumi omits.
(.deployment.resources[].outputs | select(.__fieldManager? != null)) |=
  (.__fieldManager = ([.metadata.managedFields[]? | select(.operation == "Apply" and (.manager | startswith("pulumi-")))
    | .manager][0] // .__fieldManager))
