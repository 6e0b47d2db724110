"""The pages as a folder of files, for where the server is not."""
