"""Operations: requests that the engine runs in steps."""
