"""The steps of a run, each from files to files of its run folder; the verbs and the main job call them."""
