"""The thrift port of DDMQ's producer proxy, for its SDKs."""
