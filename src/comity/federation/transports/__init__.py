"""Transports: what carries messages between a deployed server and its sites."""
