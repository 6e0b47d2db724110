"""Whether what was built may be published: its metadata, its contents, its tags, and how it installs."""
