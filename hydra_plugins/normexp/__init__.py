"""Sweeps for normexp; the folder has this place because Hydra finds plugins in `hydra_plugins` alone."""
