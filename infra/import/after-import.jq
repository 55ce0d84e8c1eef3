# Input: a stack that was exported after an import. Restores what only the lost state knew.
.deployment.resources[] |= (
  (.urn | split("::")[3]) as $name
  # The names that Pulumi generated. The program does not set them, so Pulumi would replace the resources.
  | if (.type | startswith("aws:")) and .inputs.__defaults? != null then
      .inputs.__defaults = [.inputs | to_entries[]
        | select(.value | type == "string" and test("^(alias/)?\($name)-[0-9a-f]{7}$")) | .key]
    else . end
  # The field managers with which Pulumi applied Kubernetes objects. Under another name Kubernetes rejects Pulumi's
  # changes as conflicts, and does not delete fields that Pulumi omits.
  | if .outputs.__fieldManager? != null then
      .outputs.__fieldManager = ([.outputs.metadata.managedFields[]?
        | select(.operation == "Apply" and (.manager | startswith("pulumi-"))) | .manager][0] // .outputs.__fieldManager)
    else . end)
