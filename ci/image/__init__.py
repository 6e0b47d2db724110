"""The runtime image: from a stack of components to a tested, pushed, traceable image."""
