"""Built-in learning-rate schedules."""
