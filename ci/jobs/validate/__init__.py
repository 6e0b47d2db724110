"""Whether a cluster is what jobs need, before anything runs on it: checks, a preflight, a report to sign."""
