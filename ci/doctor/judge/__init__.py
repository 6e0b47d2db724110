"""What facts of a machine mean for a run: facts in, findings out; no clock, no environment, no network."""
