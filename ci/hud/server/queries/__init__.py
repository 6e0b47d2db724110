"""What the pages and the read API ask of a store, one module a question; values are always bound."""
