"""A gRPC client and server without a proxy, told what to do line by line.

serve plain | reserve | serve xds PORT | stop first | call TARGET HEADER=VALUE…; each is answered by one line.
"""

import socket
import sys
from concurrent import futures

import grpc
import grpc.experimental


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method != "/test.Echo/Say":
            return None
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"echo " + request)


def server(port, xds):
    made = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Echo()], xds=xds)
    if xds:
        credentials = grpc.xds_server_credentials(grpc.insecure_server_credentials())
        bound = made.add_secure_port(f"127.0.0.1:{port}", credentials)
    else:
        bound = made.add_insecure_port(f"127.0.0.1:{port}")
    made.start()
    return made, bound


def dial(target):
    if target.startswith("xds:"):
        credentials = grpc.xds_channel_credentials(grpc.experimental.insecure_channel_credentials())
        return grpc.secure_channel(target, credentials)
    return grpc.insecure_channel(target)


# Channels stay open, so that they follow what changes.
channels = {}


def call(target, *headers):
    if target not in channels:
        channels[target] = dial(target)
    say = channels[target].unary_unary("/test.Echo/Say")
    metadata = [tuple(header.split("=")) for header in headers]
    return say(b"hello", timeout=30, wait_for_ready=True, metadata=metadata).decode()


def main():
    servers, reserved = [], []
    for line in sys.stdin:
        words = line.split()
        try:
            if words == ["serve", "plain"]:
                made, answer = server(0, False)
                servers.append(made)
            elif words == ["reserve"]:
                # Held until it is served, so that nobody else gets it.
                held = socket.socket()
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                held.bind(("127.0.0.1", 0))
                reserved.append(held)
                answer = held.getsockname()[1]
            elif words[:2] == ["serve", "xds"]:
                made, _ = server(int(words[2]), True)
                answer = words[2]
                servers.append(made)
            elif words == ["stop", "first"]:
                servers.pop(0).stop(None).wait()
                answer = "stopped"
            else:
                answer = call(*words[1:])
        except Exception as error:  # the test shows it
            answer = f"{type(error).__name__}: {error}".replace("\n", " ")
        print(answer, flush=True)


main()
