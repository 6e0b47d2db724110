"""One test of a past run, brought back: which it is, what is known of it, and whether it fails as it did."""
