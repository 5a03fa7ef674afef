"""The evidence of a claim as a table. Only here do claims, which know no torch, meet norms and models."""
