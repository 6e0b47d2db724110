"""The words of a run: its identity, its journals, what they come to, and verdicts."""
