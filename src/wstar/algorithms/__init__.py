"""Algorithms: a risk in, a recorded run out. One driver (``run``) owns every loop."""
