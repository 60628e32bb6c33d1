"""The remoting port of a proxy: clients of the older protocol reach brokers that they cannot connect to."""
