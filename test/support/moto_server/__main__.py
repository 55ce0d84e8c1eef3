"""`python3 -m moto_server -H 127.0.0.1 -p 5000`: has the options of moto's own server."""

import os
import sys

# Loads arn:aws:iam::aws:policy/... Set first, because moto reads this variable on import.
os.environ.setdefault("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")

from moto.server import main

from moto_server import eks, gaps, quotas, repeats

eks.install()
gaps.install()
quotas.install()
repeats.install()
main(sys.argv[1:])
