"""Linters over any checkout: which look at which files, what they found, and how that is shown."""
