"""From (kind, name) to a component: entry points, local files, and schemas from signatures."""
