"""Tensors and n x n algebra: what everything else is built on."""
