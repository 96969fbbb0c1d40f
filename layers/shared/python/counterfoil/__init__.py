"""What two or more workers of Counterfoil need."""
