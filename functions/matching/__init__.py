"""Worker `matching`: matches documents and maintains clusters."""
