"""Sweeps for normexp. Hydra finds plugins only in `hydra_plugins`, hence this folder."""
