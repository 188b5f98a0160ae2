"""How the shipped weights are made."""
