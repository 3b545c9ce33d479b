"""Data series behind figures and tables."""
