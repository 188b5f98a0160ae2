"""Measurements, experiments and release tooling of this repository; not part of the package."""
