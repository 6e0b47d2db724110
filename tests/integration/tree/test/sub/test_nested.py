"""In a folder of its own; imports a helper of the folder above, as PyTorch's do."""

from shared_helper import SIZES


def test_nested():
    assert SIZES
