"""Check a machine: what a run needs of it, whether it is there, and what to do where it is not.

Each check is one function that takes the machine and gives its findings.
"""
