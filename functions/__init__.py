"""One folder for each Lambda function: its handler, and the behavior that only it has."""
