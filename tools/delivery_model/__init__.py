"""Exhaustive model of the delivery rules for one work item.

The model covers crashes, duplicates and retries. It is plain Python, without engine code or a database. The model
checks whether the rules are correct, and the simulation checks whether the engine follows them.

The model has no time: every possible next step may happen now, except where the rules guarantee an order (a lease
expires before its message's visibility timeout). It has no identities either: it only tracks whether a token is the
latest and whether a send number equals the row's. A few hundred thousand states therefore cover all histories within
the bounds.
"""

from tools.delivery_model.exploration import Counterexample, Exploration, explore
from tools.delivery_model.states import MUTANTS, RULES, Bounds, Rules

__all__ = ["MUTANTS", "RULES", "Bounds", "Counterexample", "Exploration", "Rules", "explore"]
