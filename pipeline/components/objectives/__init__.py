"""Built-in objectives: what is minimised, as sums with weights."""
