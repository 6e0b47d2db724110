"""The runner: collecting a tree's tests and running a plan's shards so that nothing is lost."""
