"""Work beside the turns: threads, periodic and background tasks, saved tables, registrations."""
