"""The role of a broker, carried out: sockets, the controller, changes of role, an acting slave."""
