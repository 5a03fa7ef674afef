"""Fast kernels for what `normexp.norms.functional` defines. No formula stands only here."""
