"""Is an image what it was to be: how it starts, what is in it, what it is labelled, how large it is."""
