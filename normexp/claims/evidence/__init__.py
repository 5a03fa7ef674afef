"""Gather the evidence of a claim: from laws, networks at initialization, or finished training runs.

Only here do claims, which know no torch, meet norms and models. The result is always a table.
"""
