# Starts Triton with the key of its model control API, which the agent makes for each pod, so that no Secret and no
# manifest contains it.
#
#   sh -c "$(cat start-triton.sh)" DIRECTORY_OF_THE_AGENT PROGRAM [ARGUMENT...]

# Process 1 of a container ignores signals without a handler. tritonserver, which replaces this script, has its own.
trap 'exit 143' TERM
until [ -s "$0/control-key" ] && [ -d "$0/models" ]; do sleep 0.2; done
key=$(cat "$0/control-key")
for argument do
  shift
  case $argument in
  *'{control-key}') set -- "$@" "${argument%'{control-key}'}$key" ;;
  *) set -- "$@" "$argument" ;;
  esac
done
exec "$@"
