"""How fast, and in how much memory."""
