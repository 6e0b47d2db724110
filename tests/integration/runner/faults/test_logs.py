"""Tests that log, without asking pytest for what they logged."""

import logging
import os
import unittest


class TestLogs(unittest.TestCase):
    def test_a_warns_and_dies(self):
        logging.getLogger("some.library").warning("the last %s", "words")
        os.abort()

    def test_b_cannot_be_formatted(self):
        logging.getLogger("some.library").warning("%d", "no number")

    def test_c_is_watched(self):
        with self.assertLogs("some.library") as found:
            logging.getLogger("some.library").error("seen")
        self.assertEqual(found.output, ["ERROR:some.library:seen"])

    def test_d_has_no_standard_error(self):
        os.close(2)
        logging.getLogger("some.library").warning("nobody hears it")
