"""Pinned versions: the ledger of their releases, and whether and why a pin may change."""
