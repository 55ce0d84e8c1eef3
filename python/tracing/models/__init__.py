"""Modules that the trace.py files of the text and sound models are made of."""
