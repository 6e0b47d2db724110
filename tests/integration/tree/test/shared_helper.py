"""A helper that test files import; a change here must collect them anew."""

SIZES = [1, 2]
