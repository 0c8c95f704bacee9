"""The command line: options in, an experiment, a table and a run folder out."""
