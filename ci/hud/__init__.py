"""HUD: the relay client with its outbox, and the embedded HUD-compatible server."""
