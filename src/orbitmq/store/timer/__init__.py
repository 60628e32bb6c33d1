"""Files of timer messages: log, wheel, check point."""
