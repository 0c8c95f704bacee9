"""Functions of the inner product ρ of two unit vectors: kernels, Hermite coefficients, angles. Knows no network."""
