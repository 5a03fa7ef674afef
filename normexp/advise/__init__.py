"""What to expect of each norm in a setting that was not trained, from the settings of a bank."""
