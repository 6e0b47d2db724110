"""A run as it is seen while it runs: on a terminal, in a log, and by other tools."""
