"""`counterfoil train`: learns match weights from labeled sets.

`candidate_pairs` finds the pairs that matching would score, with their labels. `logistic_regression` fits the bits of
their levels, starting with the values in `priors`. `learning` creates a weights file.
"""
