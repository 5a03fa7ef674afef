"""A fair comparison of norms in one setting: each seed of each norm takes its own best rate on validation, and seeds
are added in planned looks, which the judge of claims decides.
"""
