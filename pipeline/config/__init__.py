"""From TOML text to a validated plan, with the file, line and column of every key; knows no torch."""
