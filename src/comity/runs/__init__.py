"""Runs: directories, execution, results, comparisons and models at work."""
