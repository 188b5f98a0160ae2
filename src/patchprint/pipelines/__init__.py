"""End-to-end workflows: reconstruct, localize, adapt a descriptor, train, bench, demo."""
