"""What a finished run means: alignment with the teacher, and what the papers' statements say about it."""
