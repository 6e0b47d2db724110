"""One test an outcome."""

import unittest

import pytest


class TestOutcomes(unittest.TestCase):
    def test_passes(self):
        pass

    def test_fails(self):
        self.assertEqual(1, 2)

    def test_errors(self):
        raise OSError("disk on fire")

    @unittest.skip("not today")
    def test_skips(self):
        pass

    @unittest.expectedFailure
    def test_xfails(self):
        self.fail("as declared")

    @unittest.expectedFailure
    def test_unexpectedly_passes(self):
        pass

    def test_subtests(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)


@pytest.mark.parametrize("left,right", [(1, 2), (3, 4)])
def test_function(left, right):
    assert left < right
