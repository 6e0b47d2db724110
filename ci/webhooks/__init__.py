"""Webhooks of a list of repositories, as code."""
