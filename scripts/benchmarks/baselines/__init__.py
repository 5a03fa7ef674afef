"""What the project is compared with, and how much slower it may be."""
