"""One test of a past run, run again as it ran there, and whether it fails alike."""
