"""Tensor operations: geometry, distances, patch sampling and pooling, with their Triton kernels."""
