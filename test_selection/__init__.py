"""What to run and how to split it: pure values in, values out; no network, no processes, no clock."""
