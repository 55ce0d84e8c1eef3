"""Modules for the trace.py files of the text and sound models."""
