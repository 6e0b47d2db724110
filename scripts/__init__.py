"""Scripts of the repository, each also a module that its tests import."""
