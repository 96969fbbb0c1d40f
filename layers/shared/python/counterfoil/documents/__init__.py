"""Business documents: files, extraction, matching and three-way matches."""
