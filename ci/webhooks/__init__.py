"""Webhooks of a list of repositories as code, and a poller for those whose webhooks cannot reach Jenkins."""
