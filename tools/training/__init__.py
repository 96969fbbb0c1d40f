"""`counterfoil train`: learns match weights from labeled sets.

`candidate_pairs` finds the pairs that matching would score, with their labels. `logistic_regression` fits the bits for
the pairs' levels of agreement, starting with the values in `priors`. `learning` creates a weights file.
"""
