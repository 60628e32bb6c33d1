"""Jobs over topics and stores: each is functions from data frames to data frames, and a command of it."""
