# Starts Triton with the key of its model control API, which the agent makes for each pod, so that no Secret and no
# manifest contains it. Ends Triton when the agent requests a restart.
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

# Ends Triton when the agent writes another content into this file, so that the kubelet restarts the container. `exec`
# keeps the id of this process. Its usual name is two dollar signs, of which Kubernetes would remove one.
read -r server _ </proc/self/stat
before=$(cat "$0/restart-triton" 2>/dev/null)
while kill -s 0 "$server" 2>/dev/null; do
  sleep 1
  request=$(cat "$0/restart-triton" 2>/dev/null)
  if [ -n "$request" ] && [ "$request" != "$before" ]; then
    before=$request
    echo 'The agent requested a restart.'
    kill -s TERM "$server"
  fi
done &
exec "$@"
