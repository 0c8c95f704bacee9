"""``wstar sweep``: a study of many runs, whatever is killed."""
