"""What one run changes against another: verdicts, tests that came or went, and what takes longer."""
