"""Risks: a value and a residual field, exact on the population or on a sample."""
