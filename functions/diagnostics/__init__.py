"""Worker `diagnostics`: three-way matches of clusters."""
