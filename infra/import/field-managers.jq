# Of a stack that was exported after an import: takes over the names under which Pulumi applied the objects before.
# Under another name Kubernetes refuses its changes as conflicts, and does not delete the fields that it leaves out.
(.deployment.resources[].outputs | select(.__fieldManager? != null)) |=
  (.__fieldManager = ([.metadata.managedFields[]? | select(.operation == "Apply" and (.manager | startswith("pulumi-")))
    | .manager][0] // .__fieldManager))
