"""A fair comparison of norms in one setting of a user: `normexp compare`. A claim over one own cell, through the engine
of claims: each seed of each norm takes its own best rate on validation, and seeds are added in planned looks.
"""
