"""Pages to look at, made from run folders; nothing is computed here that a run did not record."""
