"""The command line: commands, flags, and errors in one sentence."""
