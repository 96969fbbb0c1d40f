"""The migrations of the database, applied at deployment."""
