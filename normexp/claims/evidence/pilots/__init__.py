"""How long each setting of a population trains, and at which rates: pilots find it before anything is judged."""
