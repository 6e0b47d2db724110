"""Which commit broke a test: what is believed, asked and made ready; see docs/bisect.md."""
