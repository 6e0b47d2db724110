"""Looking at a machine: what a run needs of it, whether it is there, and what mends it where it is not.

Each look (`look/`) fetches facts and hands them to what decides (`judge/`), which is pure.
"""
