"""`spyre-ci prune`: items that take disk space, the rules that keep them, and their removal."""
