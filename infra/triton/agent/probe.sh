# Readiness of Triton: whether it answers for each line of the file `serving`, with which the agent states what clients can
# request. It does not need the agent, so an agent that ends or hangs takes no pod out of the Service. A Triton that has
# restarted has no models until the agent loads them.
#
#   sh probe.sh DIRECTORY_OF_THE_AGENT [URL_OF_TRITON]

# The agent removes the file while clients should send no requests.
[ -s "$1/serving" ] || exit 1
# One program and one connection for all lines.
sed "s|.*|url = \"${2:-http://127.0.0.1:8000}/v2/&\"|" "$1/serving" |
  curl --config - --silent --show-error --fail --fail-early --noproxy '*' --max-time 4
