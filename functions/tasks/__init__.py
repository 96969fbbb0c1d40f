"""Tasks: what programs handed in over the API, carried out."""
