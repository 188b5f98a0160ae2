collect_ignore = ["tree"]
