"""Doing the work: runs, reports, servers, devices. May import test_selection, never the other way round."""
