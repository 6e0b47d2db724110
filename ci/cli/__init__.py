"""The entrance: the command `spyre-ci`."""

from ci.cli.app import main

__all__ = ["main"]
