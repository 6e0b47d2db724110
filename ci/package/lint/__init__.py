"""Linters over any checkout, run by pre-commit: which look, what they found, and how that is shown."""
