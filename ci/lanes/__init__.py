"""Recurring runs: when each is due, the worker that runs them, and the CIs that begin them by themselves."""
