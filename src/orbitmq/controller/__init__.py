"""The rules of a controller: broker groups, their masters, their in-sync replicas."""
