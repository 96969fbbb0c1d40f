"""The local cloud: embedded PostgreSQL and an AWS emulator with the real CDK app."""
