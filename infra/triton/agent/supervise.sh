# Process 1 of the agent's container: runs a program and starts it again when it ends, because a sidecar that ends makes
# its pod not Ready. SIGTERM is passed on, and then ends this script too.
#
#   sh supervise.sh PROGRAM [ARGUMENT...]
#
# SUPERVISED is the name of the program in its log line; default: agent.

# Waits between two runs double up to the longest. A run of this length counts as a good one.
longest_seconds=30
good_seconds=60

stopping=
child=
trap 'stopping=1; kill -s TERM "$child" 2>/dev/null' TERM INT

# A signal interrupts "wait", so it is repeated until the process has ended. Sets `code`.
wait_for_child() {
  wait "$child"
  code=$?
  while kill -s 0 "$child" 2>/dev/null; do
    wait "$child"
    code=$?
  done
}

seconds=1
while [ -z "$stopping" ]; do
  begun=$(date +%s)
  "$@" &
  child=$!
  # The signal may have come before the process had an id.
  [ -z "$stopping" ] || kill -s TERM "$child" 2>/dev/null
  wait_for_child
  [ -z "$stopping" ] || exit "$code"
  [ $(($(date +%s) - begun)) -lt "$good_seconds" ] || seconds=1
  echo "{\"event\":\"${SUPERVISED:-agent} ended\",\"code\":$code,\"restartSeconds\":$seconds}"
  sleep "$seconds" &
  child=$!
  wait_for_child
  seconds=$((seconds * 2))
  [ "$seconds" -le "$longest_seconds" ] || seconds=$longest_seconds
done
