"""Worker `diagnostics`: performs the three-way match of a cluster."""
