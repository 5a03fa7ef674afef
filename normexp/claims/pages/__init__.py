"""What people see of verdicts. Knows no torch."""
