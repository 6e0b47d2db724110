"""Versions that are held: the ledger of releases, the protocol of upgrades, its checklist and change."""
