"""Upkeep of this repository; not part of the package."""
