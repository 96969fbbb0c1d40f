"""Worker `bulk`: takes operations on many dead letters further."""
