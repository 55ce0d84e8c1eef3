"""The model that the stub loads where launch.py could not prepare the real one: it raises the reason."""

import os

raise RuntimeError(os.environ["TRITON_SERVING_REASON"])
