"""What others see while a client misbehaves, and what becomes of it."""
