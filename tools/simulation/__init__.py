"""The simulation: the real delivery engine in a world where everything that can go wrong does, decided by a seed."""
