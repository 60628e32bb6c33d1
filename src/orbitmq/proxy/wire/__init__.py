"""Messages of the gRPC protocol: `*.proto` are the sources, the modules beside them are generated.

    cd src && python -m grpc_tools.protoc -I. --python_out=. --mypy_out=. orbitmq/proxy/wire/*.proto

writes them again (packages grpcio-tools and mypy-protobuf).
"""
