"""Daily match offers between people: schedule, profiles, computation and results."""
