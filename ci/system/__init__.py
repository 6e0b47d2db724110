"""What this system has and can do, asked here for all rooms: Linux has all of it, macOS a part."""
