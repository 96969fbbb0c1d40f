"""Database migrations, applied at deployment."""
