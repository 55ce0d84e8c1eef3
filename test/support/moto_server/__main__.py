"""`python3 -m moto_server -H 127.0.0.1 -p 5000`: the options are those of moto's own server."""

import os
import sys

# arn:aws:iam::aws:policy/...; moto reads this when it is imported.
os.environ.setdefault("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")

from moto.server import main

from moto_server import eks, gaps

eks.install()
gaps.install()
main(sys.argv[1:])
