"""One package per Lambda function: its handler, and code that only it uses."""
