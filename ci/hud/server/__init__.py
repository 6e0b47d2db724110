"""The HUD-compatible server: its store, its routes and its pages."""
