"""Networks as signed measures with an affine part: teachers, students, their parametrisations and spans."""
