"""The embedded suite: torch's OpInfo database on the device, and what is known not to work there."""
