"""The pipelines' deciding: what runs, whether it was enough, what others are told."""
