"""The main job: every step in order, the report, and resuming a run that was cut off."""
