"""LMZ's truncated gradient descent: finite and infinite width, samples and population."""
