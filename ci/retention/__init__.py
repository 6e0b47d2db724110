"""What is kept of runs, caches, images and the history, for how long, and how the rest is removed."""
