"""The two ends of a Flower run: they move sealed messages and import nothing of Comity."""
