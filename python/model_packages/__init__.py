"""Packages that a model names in its requirements.txt: for its model.py on this machine, and for its trace.py."""
