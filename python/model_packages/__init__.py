"""Installs the packages in a model's requirements.txt, for its model.py on the local server and for its trace.py."""
