"""Document output: from results to the destinations of their tenant."""
