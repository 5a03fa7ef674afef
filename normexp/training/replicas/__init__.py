"""Several seeds and learning rates of one configuration, trained together in one process."""
