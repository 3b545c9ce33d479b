"""One round of a federation: messages, the server, the clients, the loop and the engines."""
