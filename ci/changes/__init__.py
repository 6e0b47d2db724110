"""What a change of source code can break, told from its syntax."""
