"""Daily offers of people to one another: whom, among whom, when, and the same again for the same day."""
