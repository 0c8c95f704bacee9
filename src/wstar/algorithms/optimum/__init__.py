"""The best objective over all measures on the sphere: solver, certificate and the result."""
