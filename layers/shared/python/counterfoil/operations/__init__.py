"""Operations: requests that run in steps."""
