"""What was measured nearest to a setting of one's own."""
