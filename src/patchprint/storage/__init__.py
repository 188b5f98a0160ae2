"""Features and matches on disk, in our formats and in those of other tools."""
