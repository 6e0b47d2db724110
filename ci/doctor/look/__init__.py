"""Fetching facts of a machine, each within a time of its own."""
