"""A file that can only be imported by a process that began by itself, as some libraries with threads can."""

import os
import sys
import unittest

if sys.modules["__main__"].__spec__.name == "ci.runner.worker":
    os.abort()


class TestUnforkable(unittest.TestCase):
    def test_passes(self):
        pass

    def test_fails(self):
        self.fail("as it should")
