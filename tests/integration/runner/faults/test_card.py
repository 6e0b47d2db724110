"""Tests that use the card, ten operations each and one at a time, so that a card may fail in any of them."""

import os
import unittest

import torch

DEVICE = os.environ.get("CARD_DEVICE", "cpu")
OPERATIONS = 10


class TestCard(unittest.TestCase):
    def test_0(self):
        number = torch.zeros(4, device=DEVICE)
        for _ in range(OPERATIONS):
            number = number + 1
        self.assertEqual(number.cpu().tolist(), [OPERATIONS] * 4)

    @unittest.expectedFailure
    def test_expected_to_fail(self):
        self.test_0()
        self.fail("as declared")

    def test_without_the_card(self):
        pass


for one in range(1, 8):
    setattr(TestCard, f"test_{one}", TestCard.test_0)
