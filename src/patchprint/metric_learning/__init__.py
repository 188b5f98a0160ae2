"""Whole-image embeddings: SEC with the losses, data sets and metrics of deep metric learning."""
