"""Talking to a Jenkins: one client starts jobs, follows what they became, and ends them."""
