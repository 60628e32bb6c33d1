"""The web console: pages and an HTTP API over clusters of OrbitMQ and of Apache RocketMQ.

Every number comes from `orbitmq.admin`, so page and command line cannot disagree. `app` puts the parts
together: `api` holds one module per subject, `security` decides who may do what, `sampling` keeps the charts,
`static` is what browsers load. Needs the extra `console`.
"""
