"""Connected producers and consumers, their locks, and requests sent to them."""
