"""Tensors, n x n algebra and the few services that all rooms share; imports nothing above it.

`fleet`, `mixing`, `solvers` and `clusters` are the mathematics of a federation, `pareto` and
`preferences` that of objectives, `phases` the contract between algorithms and learners, `rng` the
source of random numbers, `typing` the names of types. `storage` (whole-or-absent files) and
`threads` are here, not in `runs`, because `algorithms` and `federation` use them and lie below it.
"""
