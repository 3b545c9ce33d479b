"""Comity beside other libraries on the same federated tasks; `__main__` says how."""
