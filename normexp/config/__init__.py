"""What a configuration is: its settings, their checks, which run it is, and which code computed it."""
