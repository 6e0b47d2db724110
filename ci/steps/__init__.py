"""The steps of a run, each reading and writing files of its run folder; the verbs and the main job call them."""
