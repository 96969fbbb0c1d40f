"""Daily offers of users to each other: schedule, profiles, computation and results."""
