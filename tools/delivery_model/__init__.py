"""An exhaustive model of delivery's rules: one piece of work in every history of crashes, lapses, copies and redrives.

Plain Python: no engine code and no database. It asks whether the rules are right; the simulation asks whether the
engine keeps them. Time is left out: whatever may happen next may happen now, but for the orders that the rules
themselves keep (a lease ends before the visibility of its message). Names are forgotten: of a token only matters
whether it is the latest, of a send number whether it is the row's. So a few hundred thousand states stand for all
histories within the bounds.
"""

from tools.delivery_model.exploration import Counterexample, Exploration, explore
from tools.delivery_model.states import RULES, TWINS, Bounds, Rules

__all__ = ["RULES", "TWINS", "Bounds", "Counterexample", "Exploration", "Rules", "explore"]
