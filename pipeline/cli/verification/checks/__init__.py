"""A check each: a comparison over what trials and probe have left."""
