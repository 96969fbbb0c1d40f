"""Daily offers between users: schedule, profiles, computation and results."""
