"""Tools for developers: demo, simulation, sample documents, training, evaluation."""
