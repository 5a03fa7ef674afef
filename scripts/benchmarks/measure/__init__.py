"""What is measured, and on which machine."""
