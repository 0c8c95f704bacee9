"""Experiments: a config in, a run folder out."""
