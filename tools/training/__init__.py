"""`counterfoil train`: learns match weights from labelled sets.

`candidates` finds the pairs that matching would weigh, with the truth about them; `regression` fits bits to their
levels, beginning from `start`, which is what is thought of a level before any has been seen; `learning` puts a file of
weights together.
"""
