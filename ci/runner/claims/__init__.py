"""Claims across hosts: pieces taken before all other hosts, through a shared folder or a Redis."""
