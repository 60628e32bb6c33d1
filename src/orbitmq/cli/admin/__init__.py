"""The commands of `orbitmq admin`: a thin layer over `orbitmq.admin`, by subject."""
