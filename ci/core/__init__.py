"""What every room uses and none owns: text, files, processes, locks, Git, GitHub, addresses, errors."""
