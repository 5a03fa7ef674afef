"""Where a claim's evidence comes from: laws, networks at initialization, or finished training runs.

The one place where claims (which know no torch) meet norms and models; everything it hands on is a table.
"""
