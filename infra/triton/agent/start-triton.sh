# Starts Triton with the key of its model control API, which the agent makes for each pod, so that no Secret and no
# manifest contains it. Ends Triton when the agent requests a restart.
#
#   sh -c "$(cat start-triton.sh)" DIRECTORY_OF_THE_AGENT PROGRAM [ARGUMENT...]

# This script stays process 1 of the container: the kernel lets no process of a container kill its process 1, and a Triton
# that hangs in a load ignores SIGTERM. When this script ends, the kernel ends all processes of the container.
server=
trap '[ -n "$server" ] || exit 143; kill -s TERM "$server" 2>/dev/null' TERM
until [ -s "$0/control-key" ] && [ -d "$0/models" ]; do sleep 0.2; done
key=$(cat "$0/control-key")
# Time to end after a request: that of open requests, and some to unload models.
grace=45
for argument do
  shift
  case $argument in
  *'{control-key}') set -- "$@" "${argument%'{control-key}'}$key" ;;
  --exit-timeout-secs=*) set -- "$@" "$argument" && grace=$((${argument#*=} + 15)) ;;
  *) set -- "$@" "$argument" ;;
  esac
done

# The agent requests a restart by another content of this file. A kubelet, Docker or supervise.sh starts this script again.
before=$(cat "$0/restart-triton" 2>/dev/null)
"$@" &
server=$!
while kill -s 0 "$server" 2>/dev/null; do
  sleep 1
  request=$(cat "$0/restart-triton" 2>/dev/null)
  if [ -n "$request" ] && [ "$request" != "$before" ]; then
    before=$request
    echo 'The agent requested a restart.'
    kill -s TERM "$server"
    left=$grace
    while [ "$left" -gt 0 ] && kill -s 0 "$server" 2>/dev/null; do sleep 1 && left=$((left - 1)); done
    kill -s KILL "$server" 2>/dev/null && echo "Triton did not end within $grace s, and was killed."
  fi
done &
# A signal interrupts "wait", so it is repeated until Triton has ended.
wait "$server"
code=$?
while kill -s 0 "$server" 2>/dev/null; do
  wait "$server"
  code=$?
done
exit "$code"
