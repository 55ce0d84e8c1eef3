"""A model that raises the reason why launch.py could not prepare the real model; the stub loads it instead."""

import os

raise RuntimeError(os.environ["TRITON_SERVING_REASON"])
