"""Talking to GitHub's API, on github.com and GitHub Enterprise: one place connects, waits and refuses."""
