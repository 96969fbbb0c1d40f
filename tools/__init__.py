"""Developer tools: demo, simulation, sample documents, training, evaluation."""
