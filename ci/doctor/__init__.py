"""Looking at a machine: what a run needs of it, whether it is there, and what mends it where it is not.

In each module a `look_` fetches facts and hands them to a `judge_`, which is pure.
"""
