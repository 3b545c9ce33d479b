"""Data behind figures, tables and pages, as arrays; no drawing library is imported here."""
