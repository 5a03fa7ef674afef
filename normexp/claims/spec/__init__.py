"""What a claim says: its file, its checks, and which claims a person means."""
