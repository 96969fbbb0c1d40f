"""The local cloud: an embedded PostgreSQL, an AWS emulator, and the real CDK app deployed into it."""
